// Server: the HTTP front of a proxy::host::Host: its listening socket and its connections.
// No Asio in this header: whoever starts a server does not compile Beast.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "gateway/http/socket/listener_tls.h"

namespace kvgate::proxy::host {
class Host;
}

namespace kvgate::http {

struct ServerOptions {
  std::string address = "127.0.0.1";      // an IP address, or "localhost"
  uint16_t port = 0;                      // 0: the system picks one
  socket::ListenerTls::Options tls = {};  // without files: plain HTTP
  std::vector<std::string> allowed_hosts = {};
  // Limit of one imported prefix file; only a piece of it is in memory. That of other bodies is the
  // host's.
  uint64_t import_bytes_max = uint64_t{16} << 30;
  size_t header_bytes_max = size_t{64} << 10;
  int connections_max = 1024;
  std::chrono::milliseconds header_timeout{15'000};  // a whole head, from its first byte
  std::chrono::milliseconds body_timeout{30'000};    // between two pieces of a body
  // A body's minimum average speed, enforced after ten body_timeouts; 0 means no limit.
  uint64_t body_bytes_per_second_min = 1024;
  std::chrono::milliseconds idle_timeout{120'000};  // between two requests
  std::chrono::milliseconds write_timeout{60'000};  // for a client that does not read
  std::chrono::milliseconds poll_interval{200};     // how often a waiting request checks its client
  // After a refusal the rest of the body is read and dropped for at most this time, and hardly more
  // than one body, so that a client that is still sending gets the answer and not a reset.
  std::chrono::milliseconds linger_timeout{5'000};
};

class Server {
 public:
  // Binds the address and starts serving on the loops of `host`, which outlives the server. Fails
  // with kUnavailable if the address is in use, and with kInvalidArgument if it is not an address
  // or if a certificate is unusable.
  static Result<std::unique_ptr<Server>> Open(const ServerOptions& options,
                                              proxy::host::Host& host);
  // Cancels the remaining connections and waits for them.
  virtual ~Server() = default;

  virtual uint16_t port() const = 0;
  // "http://127.0.0.1:8080"; "https://…" with TLS.
  virtual std::string url() const = 0;
  // The SHA-256 of the listener's certificate, in hex; empty without TLS.
  virtual std::string certificate_sha256() const = 0;

  // New connections use this certificate; its files are read again. Fails as Open does, and then
  // changes nothing. Callable from any thread.
  virtual Result<void> Reload(const socket::ListenerTls::Options& tls) = 0;

  // Serves on, but each answer ends its connection, so that clients connect anew and a balancer can
  // send them elsewhere. Does not wait.
  virtual void CloseAfterAnswers() = 0;
  // Stops accepting, closes idle connections and lets running requests finish. Does not wait.
  virtual void BeginDrain() = 0;
  // Ends every current answer with an error that its client can read. Does not wait.
  virtual void EndAnswers() = 0;
  // The number of open connections; 0 after a drain means that every request has been answered.
  virtual size_t num_connections() const = 0;
};

}  // namespace kvgate::http
