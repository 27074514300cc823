#include "gateway/http/server.h"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <future>
#include <utility>

#include "base/log.h"
#include "gateway/http/connection.h"
#include "gateway/http/connection_group.h"
#include "gateway/proxy/host/host.h"

namespace kvgate::http {

using proxy::host::Host;

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCodeAsio = boost::system::error_code;

// Connections beyond the limit still get a 503; beyond this many more they are closed unanswered.
constexpr size_t kRefusedAtOnce = 64;

class AsioServer final : public Server {
 public:
  AsioServer(const ServerOptions& options, std::vector<std::string> hosts, CurrentTls::Tls tls,
             Host& host)
      : options_(options),
        host_(host),
        metrics_(host.environment().service.metrics()),
        guard_(std::move(hosts)),
        tls_(std::move(tls)),
        context_{
            .options = options_, .guard = guard_, .tls = tls_, .environment = host.environment()},
        acceptor_(host.loop(0)),
        retry_(acceptor_.get_executor()),
        group_(metrics_.connections) {}

  Result<void> Start() {
    KVGATE_TRY(const tcp::endpoint endpoint, Resolve());
    KVGATE_TRY_VOID(Bind(endpoint));
    is_accepting_ = true;
    asio::co_spawn(acceptor_.get_executor(), Accept(), [this](std::exception_ptr failure) {
      if (failure) KVGATE_LOG(kError, "http", "accepting ended by an exception");
      accept_ended_.set_value();
    });
    return {};
  }

  ~AsioServer() override {
    if (!is_accepting_) return;
    StopAccepting();
    accept_ended_.get_future().wait();
    // A connection that was accepted before accepting ended is in the group by then.
    group_.CancelAll();
    while (!group_.WaitEmpty(std::chrono::seconds(1))) group_.CancelAll();
    host_.Flush();  // of what was posted for the acceptor and for connections
  }

  uint16_t port() const override { return port_; }
  std::string url() const override { return url_; }
  std::string certificate_sha256() const override {
    const CurrentTls::Tls tls = tls_.Get();
    return tls ? tls->certificate_sha256() : "";
  }
  size_t num_connections() const override { return group_.size(); }

  Result<void> Reload(const socket::ListenerTls::Options& options) override {
    KVGATE_TRY(CurrentTls::Tls tls, socket::ListenerTls::Open(options));
    tls_.Set(std::move(tls));
    return {};
  }

  void EndAnswers() override { group_.EndAnswers(); }

  void CloseAfterAnswers() override { context_.closes_connections.store(true); }

  void BeginDrain() override {
    context_.closes_connections.store(true);
    context_.draining.store(true);
    StopAccepting();
    group_.DrainAll();
  }

 private:
  Result<tcp::endpoint> Resolve() const {
    ErrorCodeAsio code;
    const std::string address = options_.address == "localhost" ? "127.0.0.1" : options_.address;
    const asio::ip::address parsed = asio::ip::make_address(address, code);
    if (code) {
      return MakeError(ErrorCode::kInvalidArgument, "http",
                       fmt::format("'{}' is not an IP address to listen on", options_.address));
    }
    return tcp::endpoint(parsed, options_.port);
  }

  Result<void> Bind(const tcp::endpoint& endpoint) {
    ErrorCodeAsio code;
    acceptor_.open(endpoint.protocol(), code);
    if (!code) acceptor_.set_option(tcp::acceptor::reuse_address(true), code);
    if (!code) acceptor_.bind(endpoint, code);
    if (!code) acceptor_.listen(asio::socket_base::max_listen_connections, code);
    if (code) {
      return MakeError(ErrorCode::kUnavailable, "http",
                       fmt::format("cannot listen on {} port {}: {}; choose another --listen",
                                   options_.address, options_.port, code.message()));
    }
    port_ = acceptor_.local_endpoint().port();
    const std::string host = endpoint.address().to_string();
    const char* const scheme = tls_.Get() ? "https" : "http";
    url_ = endpoint.address().is_v6() ? fmt::format("{}://[{}]:{}", scheme, host, port_)
                                      : fmt::format("{}://{}:{}", scheme, host, port_);
    return {};
  }

  socket::Task<void> Accept() {
    while (!context_.draining.load() && !stopping_.load()) {
      asio::io_context& loop = host_.NextLoop();
      auto [code, socket] = co_await acceptor_.async_accept(loop, socket::kAwait);
      if (code == asio::error::operation_aborted || code == asio::error::bad_descriptor) break;
      if (code) {
        // Resources such as descriptors ran out; they become free again, and retrying at once would
        // not help.
        KVGATE_LOG(kWarning, "http", "accepting a connection failed: {}", code.message());
        retry_.expires_after(std::chrono::milliseconds(100));
        co_await retry_.async_wait(socket::kAwait);
        continue;
      }
      Admit(std::move(socket));
    }
  }

  void Admit(tcp::socket socket) {
    const size_t open = group_.size();
    const auto limit = static_cast<size_t>(options_.connections_max);
    const bool over_limit = open >= limit;
    if (over_limit) metrics_.connections_refused.Add();
    if (open >= limit + kRefusedAtOnce) return;
    group_.Spawn(std::make_shared<Connection>(std::move(socket), context_, over_limit));
  }

  // Closes on the acceptor's thread, where Accept runs, because an acceptor is not thread-safe.
  void StopAccepting() {
    stopping_.store(true);
    asio::post(acceptor_.get_executor(), [this] {
      ErrorCodeAsio ignored;
      acceptor_.close(ignored);
      retry_.cancel();
    });
  }

  const ServerOptions options_;
  Host& host_;
  metrics::GatewayMetrics& metrics_;
  const message::RequestGuard guard_;
  CurrentTls tls_;
  ConnectionContext context_;
  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  ConnectionGroup group_;
  std::promise<void> accept_ended_;
  std::atomic<bool> stopping_{false};
  uint16_t port_ = 0;
  std::string url_;
  bool is_accepting_ = false;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::Open(const ServerOptions& options, Host& host) {
  std::vector<std::string> hosts = options.allowed_hosts;
  hosts.push_back(options.address);
  KVGATE_TRY(CurrentTls::Tls tls, socket::ListenerTls::Open(options.tls));
  auto server = std::make_unique<AsioServer>(options, std::move(hosts), std::move(tls), host);
  KVGATE_TRY_VOID(server->Start());
  return server;
}

}  // namespace kvgate::http
