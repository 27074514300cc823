// Server: the HTTP front of a Service. Its threads, its listening socket, its connections.
// No Asio in this header: whoever starts a server does not compile Beast.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <kvgate/result.h>

#include "gateway/config/config.h"
#include "gateway/http/socket/listener_tls.h"
#include "gateway/service/service.h"
#include "gateway/service/work_pools.h"

namespace kvgate::upstream {
class ExchangeLog;
}

namespace kvgate::service {
class Prompts;
}

namespace kvgate::http {

// What a reload replaces as one (gateway/http/targets.h).
struct TargetOptions {
  ListenerTls::Options tls = {};  // no files: plain HTTP
  std::vector<config::UpstreamConfig> upstreams = {};
  std::vector<config::RouteConfig> routes = {};
  std::vector<config::KeyConfig> keys = {};  // none: everyone is let in
  config::MetricsConfig metrics = {};        // who else reads /metrics
};

struct ServerOptions {
  std::string admin_token = {};  // in x-kvgate-admin it makes its caller an admin; empty: none does
  std::string address = "127.0.0.1";  // an IP address, or "localhost"
  uint16_t port = 0;                  // 0: a free one
  int threads = 2;                    // for sockets
  service::WorkPools::Options pools = {};
  TargetOptions targets = {};
  std::vector<std::string> allowed_hosts = {};
  size_t body_bytes_max = size_t{64} << 20;
  uint64_t bodies_bytes_max = uint64_t{512} << 20;  // of all bodies in memory; beyond: 503
  double tenant_bodies_share = 0.5;                 // of that, for one tenant
  uint64_t import_bytes_max = uint64_t{16} << 30;   // of a prefix file; in memory: a piece of it
  size_t header_bytes_max = size_t{64} << 10;
  int connections_max = 1024;
  std::chrono::milliseconds header_timeout{15'000};  // a whole head, from its first byte
  std::chrono::milliseconds body_timeout{30'000};    // between two pieces of a body
  // A body's average speed from ten body_timeouts on; 0: any.
  uint64_t body_bytes_per_second_min = 1024;
  std::chrono::milliseconds idle_timeout{120'000};  // between two requests
  std::chrono::milliseconds write_timeout{60'000};  // a client that does not read
  std::chrono::milliseconds ping_interval{10'000};  // of a silent stream
  // A stream's head goes out with its first event, or after so long: an error that comes before
  // is answered with its own status, not as an event.
  std::chrono::milliseconds head_delay{2'000};
  std::chrono::milliseconds poll_interval{200};  // how often a waiting request looks at its client
  // After a refusal the rest of the body is read and dropped, so that a client that is still
  // sending sees the answer and not a reset: at most so long, and hardly more than one body.
  std::chrono::milliseconds linger_timeout{5'000};
  // Keeps accounts of what is forwarded; may be null. Outlives the server.
  upstream::ExchangeLog* exchange_log = nullptr;
  // Looks at the prompts of what is forwarded; null: nobody does. Outlives the server.
  service::Prompts* prompts = nullptr;
};

class Server {
 public:
  // Binds and serves. kUnavailable: the address is in use; kInvalidArgument: it is none, a
  // certificate is not well, or an upstream's or a key's variable or file is missing.
  static Result<std::unique_ptr<Server>> Open(const ServerOptions& options,
                                              service::Service& service);
  // Cancels what is left and waits for it.
  virtual ~Server() = default;

  virtual uint16_t port() const = 0;
  // "http://127.0.0.1:8080", with TLS "https://…"
  virtual std::string url() const = 0;
  // Of the certificate it shows, in hex; empty without TLS.
  virtual std::string certificate_sha256() const = 0;

  // Requests from now on begin with these targets; those under way keep theirs. Files and variables
  // are read again. On an error, as Open's, everything stays as it is. Any thread.
  virtual Result<void> Reload(const TargetOptions& targets) = 0;

  // Stops accepting, closes idle connections, lets running requests finish. Does not wait.
  virtual void BeginDrain() = 0;
  // Ends every answer under way by an error that its client gets to read. Does not wait.
  virtual void EndAnswers() = 0;
  // Open connections; 0 after a drain means that everyone has been answered.
  virtual size_t num_connections() const = 0;
};

}  // namespace kvgate::http
