// RespConnection: one connection to one server, plain or TLS, on which the client is logged in.
//
// The calling thread does all the work and waits until the deadline at most: there are no threads
// behind it. One thread at a time may use a connection. It does not know other servers, clusters or
// retries. Deadlines are real time, by the system's steady clock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "store/remote/name_lookup.h"
#include "store/remote/resp_protocol.h"
#include "store/remote/resp_url.h"
#include "store/remote/tls_context.h"

namespace kvgate::store::remote {

class RespConnection {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // What all connections of a client have done.
  struct Traffic {
    std::atomic<uint64_t> num_connects{0};
    std::atomic<uint64_t> bytes_sent{0};
    std::atomic<uint64_t> bytes_received{0};
  };
  // How all connections of a client are made. It must outlive them.
  struct Setup {
    std::unique_ptr<TlsContext> tls = nullptr;  // null: without TLS
    std::string user = {};                      // of an ACL; empty: the default user
    std::string password = {};                  // empty, and no user: no AUTH
    int database = 0;
    size_t reply_bytes_max = 0;
    NameLookup lookup = NameLookup();
    std::unique_ptr<Traffic> traffic = std::make_unique<Traffic>();
  };

  // Finds the server's address, connects, proves its name if there is TLS, logs in (HELLO 3, or
  // AUTH where the server does not know it) and selects the database. Errors: kDeadline,
  // kUnavailable, kDataLoss. No error has the password.
  static Result<std::unique_ptr<RespConnection>> Open(const Setup& setup,
                                                      const RespEndpoint& endpoint,
                                                      TimePoint deadline);
  ~RespConnection();
  RespConnection(const RespConnection&) = delete;
  RespConnection& operator=(const RespConnection&) = delete;

  // Begins to send the commands, and to read replies at the same time, so that no two long texts
  // can wait for each other. It sends what the socket takes, and does not wait. REQUIRES: the
  // commands and their words live until Finish has returned.
  void Start(std::span<const RespCommand> commands);
  // Waits for one reply per command. Errors, after which the connection is of no more use:
  // kDeadline; kUnavailable if the server closed it; kDataLoss if the bytes are not the protocol.
  Result<std::vector<RespReply>> Finish(TimePoint deadline);

  // True if another Start may follow: nothing is expected and nothing unexpected has come.
  bool IsReady();
  // True if Finish failed because the server had closed the connection before it answered a byte.
  bool is_closed_unanswered() const { return is_closed_ && bytes_of_reply_ == 0; }

  const RespEndpoint& endpoint() const { return endpoint_; }
  // "redis 7.0.15", as HELLO said; empty if it said nothing.
  const std::string& server() const { return server_; }
  bool is_cluster() const { return is_cluster_; }  // as HELLO said

 private:
  struct Io;
  RespConnection(const Setup& setup, const RespEndpoint& endpoint);
  Result<void> Connect(TimePoint deadline);
  Result<void> ProveServer(TimePoint deadline);
  Result<void> Login(TimePoint deadline);
  Result<void> LoginWithoutHello(const RespReply& refusal, TimePoint deadline);
  Result<void> CheckSelected(const RespReply& reply) const;
  void ReadGreeting(const RespReply& reply);
  // Runs what was started until it has ended. Returns false if the deadline came first; then the
  // socket is closed, and no buffer is touched any more.
  bool Run(TimePoint deadline);
  void Write();
  void Read();
  // Takes replies from what has been received; asks for more if some are missing.
  void TakeReplies();
  void Close();
  Error Failed(ErrorCode code, std::string_view what) const;
  Error CredentialsRefused(std::string_view code) const;

  const Setup& setup_;
  const RespEndpoint endpoint_;
  const std::unique_ptr<Io> io_;
  std::string server_;
  bool is_cluster_ = false;

  // The exchange from Start to Finish.
  RespReader reader_;
  std::optional<RespRequest> request_;
  size_t num_wanted_ = 0;
  std::vector<RespReply> replies_;
  std::optional<Error> failure_;
  bool is_writing_ = false;
  bool is_closed_ = false;
  size_t bytes_of_reply_ = 0;
};

}  // namespace kvgate::store::remote
