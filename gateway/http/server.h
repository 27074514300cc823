// Server: the HTTP front of a Service. Its threads, its listening socket, its connections.
// No Asio in this header: whoever starts a server does not compile Beast.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "gateway/config/config.h"
#include "gateway/http/socket/listener_tls.h"
#include "gateway/ledger/prices.h"
#include "gateway/proxy/request/target_options.h"
#include "gateway/service/service.h"
#include "gateway/service/work_pools.h"

namespace kvgate::upstream {
class ExchangeLog;
}

namespace kvgate::session {
class Sessions;
}

namespace kvgate::service {
class Prompts;
}

namespace kvgate::http {

// Options that a reload replaces together.
struct TargetOptions {
  socket::ListenerTls::Options tls = {};  // without files: plain HTTP
  proxy::request::TargetOptions proxy = {};
};

struct ServerOptions {
  // A caller that sends it in x-kvgate-admin is an admin; empty: no token is accepted.
  std::string admin_token = {};
  std::string address = "127.0.0.1";  // an IP address, or "localhost"
  uint16_t port = 0;                  // 0: the system picks one
  int threads = 2;                    // event loops for sockets
  service::WorkPools::Options pools = {};
  TargetOptions targets = {};
  std::vector<std::string> allowed_hosts = {};
  size_t body_bytes_max = size_t{64} << 20;
  uint64_t bodies_bytes_max = uint64_t{512} << 20;  // of all bodies in memory; beyond: 503
  double tenant_bodies_share = 0.5;                 // the part of that for one tenant
  // Limit of one imported prefix file; only a piece of it is in memory.
  uint64_t import_bytes_max = uint64_t{16} << 30;
  size_t header_bytes_max = size_t{64} << 10;
  int connections_max = 1024;
  std::chrono::milliseconds header_timeout{15'000};  // a whole head, from its first byte
  std::chrono::milliseconds body_timeout{30'000};    // between two pieces of a body
  // A body's minimum average speed, enforced after ten body_timeouts; 0 means no limit.
  uint64_t body_bytes_per_second_min = 1024;
  std::chrono::milliseconds idle_timeout{120'000};  // between two requests
  std::chrono::milliseconds write_timeout{60'000};  // for a client that does not read
  std::chrono::milliseconds ping_interval{10'000};  // on a silent stream
  // A stream's head goes out with its first event, or after this time. An error that comes before
  // is answered with its own status instead of as an event.
  std::chrono::milliseconds head_delay{2'000};
  std::chrono::milliseconds poll_interval{200};  // how often a waiting request checks its client
  // After a refusal the rest of the body is read and dropped for at most this time, and hardly more
  // than one body, so that a client that is still sending gets the answer and not a reset.
  std::chrono::milliseconds linger_timeout{5'000};
  // Keeps accounts of forwarded requests; may be null. Outlives the server.
  upstream::ExchangeLog* exchange_log = nullptr;
  // Examines the prompts of forwarded requests; null: prompts are not examined. Outlives the
  // server.
  service::Prompts* prompts = nullptr;
  // Keeps the sessions that requests name; null: none are kept. Outlives the server.
  session::Sessions* sessions = nullptr;
  // What is known of providers' caches; null: nothing is. Outlives the server.
  const ledger::Prices* prices = nullptr;
};

class Server {
 public:
  // Binds the address and starts serving. Fails with kUnavailable if the address is in use, and
  // with kInvalidArgument if it is not an address, if a certificate is unusable, or if a variable
  // or file named by an upstream or a key is missing.
  static Result<std::unique_ptr<Server>> Open(const ServerOptions& options,
                                              service::Service& service);
  // Cancels the remaining connections and waits for them.
  virtual ~Server() = default;

  virtual uint16_t port() const = 0;
  // "http://127.0.0.1:8080"; "https://…" with TLS.
  virtual std::string url() const = 0;
  // The SHA-256 of the listener's certificate, in hex; empty without TLS.
  virtual std::string certificate_sha256() const = 0;

  // New requests use these targets; requests that have begun keep theirs. Files and variables are
  // read again. Fails as Open does, and then changes nothing. Callable from any thread.
  virtual Result<void> Reload(const TargetOptions& targets) = 0;

  // Stops accepting, closes idle connections and lets running requests finish. Does not wait.
  virtual void BeginDrain() = 0;
  // Ends every current answer with an error that its client can read. Does not wait.
  virtual void EndAnswers() = 0;
  // The number of open connections; 0 after a drain means that every request has been answered.
  virtual size_t num_connections() const = 0;
};

}  // namespace kvgate::http
