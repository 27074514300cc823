// Relay: a port of this machine for one run of an agent. It passes bytes on to a server and back,
// unchanged, and notes the ids that the server gives to the requests, so that the run's own
// requests can be told from those of other clients. It keeps no other byte of what passes.
//
// A thread accepts, and each connection has a thread of its own; all inherit the caller's signal
// mask. What is full or slow on one side holds up the other; an end or a reset is passed on.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.h"

namespace kvgate::cli::agents {

// Finds the ids of requests in the heads of answers, which may come in any pieces.
class RequestIdScanner {
 public:
  // Calls `found` for each id that ends in this piece.
  void Push(std::string_view piece, const std::function<void(std::string)>& found);

 private:
  static constexpr size_t kIdBytesMax = 64;

  size_t num_matched_ = 0;  // bytes of the header's name
  bool in_value_ = false;
  std::string id_;
};

class Relay {
 public:
  // Returns a connected socket of the server, or why there is none. Called on any thread.
  using Dial = std::function<Result<int>()>;

  static constexpr size_t kConnectionsMax = 256;  // at once; further ones wait
  static constexpr size_t kIdsMax = 100'000;      // further requests are not noted

  // Listens on a free port of 127.0.0.1. Fails with kUnavailable if the system refuses one.
  static Result<std::unique_ptr<Relay>> Open(Dial dial);
  // Cuts what is still connected.
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // "http://127.0.0.1:PORT".
  const std::string& origin() const { return origin_; }
  // The ids of the requests whose answers have begun.
  std::set<std::string> request_ids() const;
  // The last reason for which no connection to the server could be made; empty: there was none.
  std::string last_failure() const;

 private:
  explicit Relay(Dial dial) : dial_(std::move(dial)) {}
  void Accept();
  void Serve(int client);
  void Note(std::string id);

  const Dial dial_;
  std::string origin_;
  int listener_ = -1;
  int stop_ = -1;  // an eventfd, readable from the destructor on
  mutable std::mutex mutex_;
  std::condition_variable freed_;
  std::set<std::string> ids_;
  std::string failure_;
  size_t num_connections_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

// Connects to a host and port with no delay of small pieces. Fails with kUnavailable.
Result<int> ConnectTcp(const std::string& host, uint16_t port);

}  // namespace kvgate::cli::agents
