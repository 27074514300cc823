// ConnectionPool: the connections that a client keeps to its servers between calls.
//
// All functions may be called from any thread; a connection that was taken is its taker's alone.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/remote/resp_connection.h"
#include "store/remote/resp_url.h"

namespace kvgate::store::remote {

class ConnectionPool {
 public:
  using TimePoint = RespConnection::TimePoint;
  struct Options {
    int kept_max = 8;  // for each server
    std::chrono::milliseconds connect_timeout{500};
  };
  // After this time without use a connection is not used again, because something on the way may
  // have forgotten it without a word.
  static constexpr std::chrono::seconds kIdleMax{60};
  static constexpr size_t kServersMax = 1000;  // to which connections are kept

  ConnectionPool(RespConnection::Setup setup, Options options)
      : setup_(std::move(setup)), options_(options) {}
  ConnectionPool(const ConnectionPool&) = delete;
  ConnectionPool& operator=(const ConnectionPool&) = delete;

  // Returns a kept connection that the server has not closed, or null.
  std::unique_ptr<RespConnection> TakeKept(const RespEndpoint& endpoint);
  // Makes a new one, which takes the connect timeout at most, and no more of the time until the
  // deadline than leaves as much for each of `num_others` that may be tried after it. Fails with
  // kDeadline only if the deadline has passed.
  Result<std::unique_ptr<RespConnection>> Connect(const RespEndpoint& endpoint, TimePoint deadline,
                                                  size_t num_others);
  // Keeps a connection on which no reply is awaited.
  void Return(std::unique_ptr<RespConnection> connection);
  // Closes the kept ones, because the server has failed.
  void Forget(const RespEndpoint& endpoint);

  const RespConnection::Traffic& traffic() const { return *setup_.traffic; }
  // As the newest connection's server named itself; empty if none did.
  std::string server() const;

 private:
  struct Kept {
    std::unique_ptr<RespConnection> connection;
    TimePoint since;
  };

  const RespConnection::Setup setup_;
  const Options options_;
  mutable std::mutex mutex_;
  std::map<RespEndpoint, std::vector<Kept>> kept_;  // the last one used at the end
  std::string server_;
};

}  // namespace kvgate::store::remote
