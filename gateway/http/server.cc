#include "gateway/http/server.h"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/memory_fence.h"
#include "base/thread_activity.h"
#include "gateway/http/connection.h"
#include "gateway/http/connection_group.h"

namespace kvgate::http {

using proxy::request::CurrentTargets;
using proxy::request::Targets;
using proxy::work::BodyBudget;

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCodeAsio = boost::system::error_code;

// Connections beyond the limit still get a 503; beyond this many more they are closed unanswered.
constexpr size_t kRefusedAtOnce = 64;

// How often each loop reports that it is alive.
constexpr std::chrono::milliseconds kBeatInterval{250};

// Makes one loop for each thread, so that a connection never changes threads, needs no lock and
// wakes no other thread.
using Loops = std::vector<std::unique_ptr<asio::io_context>>;

Loops MakeLoops(int count) {
  Loops loops;
  for (int i = 0; i < count; ++i) loops.push_back(std::make_unique<asio::io_context>(1));
  return loops;
}

// Reports that a loop is running. It lives on the loop's thread, which destroys it after the loop
// has ended, so no handler runs afterwards.
class Heartbeat {
 public:
  explicit Heartbeat(asio::io_context& io) : timer_(io) { Beat(); }

 private:
  void Beat() {
    activity_.Begin("the handlers of connections");
    timer_.expires_after(kBeatInterval);
    timer_.async_wait([this](const ErrorCodeAsio& code) {
      if (!code) Beat();
    });
  }

  ThreadActivity activity_{{.pool = "loop", .patience = kBeatInterval + std::chrono::seconds(1)}};
  asio::steady_timer timer_;
};

class AsioServer final : public Server {
 public:
  // The parts that can fail to open, opened first. Kept upstream connections belong to the targets
  // and must be destroyed before their loops, hence the order of the members.
  struct Parts {
    Loops loops;
    CurrentTargets targets;
    CurrentTls tls;
  };
  AsioServer(const ServerOptions& options, service::Service& service,
             std::vector<std::string> hosts, std::unique_ptr<Parts> parts)
      : options_(options),
        service_(service),
        guard_(std::move(hosts)),
        parts_(std::move(parts)),
        // A body may be held in its encoded and its decoded form at the same time.
        bodies_(std::make_shared<BodyBudget>(
            BodyBudget::Options{.bytes_max = options.bodies_bytes_max,
                                .tenant_share = options.tenant_bodies_share,
                                .body_bytes_max = 2 * options.body_bytes_max})),
        pools_(std::make_shared<service::WorkPools>(options.pools)),
        environment_{.options = {.admin_token = options.admin_token,
                                 .body_bytes_max = options.body_bytes_max,
                                 .ping_interval = options.ping_interval,
                                 .head_delay = options.head_delay,
                                 .exchange_log = options.exchange_log,
                                 .prompts = options.prompts,
                                 .sessions = options.sessions,
                                 .prices = options.prices},
                     .service = service,
                     .pools = *pools_,
                     .bodies = *bodies_,
                     .targets = parts_->targets,
                     .model_lists = model_lists_},
        context_{
            .options = options_, .guard = guard_, .tls = parts_->tls, .environment = environment_},
        acceptor_(*parts_->loops.front()),
        retry_(acceptor_.get_executor()),
        group_(service.metrics().connections) {}

  Result<void> Start() {
    service_.AddCollector([weak = std::weak_ptr<const service::WorkPools>(pools_)](auto& writer) {
      if (const auto pools = weak.lock()) pools->Collect(writer);
    });
    service_.AddCollector([weak = std::weak_ptr<const BodyBudget>(bodies_)](auto& writer) {
      if (const auto bodies = weak.lock()) bodies->Collect(writer);
    });
    KVGATE_TRY(const tcp::endpoint endpoint, Resolve());
    KVGATE_TRY_VOID(Bind(endpoint));
    asio::co_spawn(acceptor_.get_executor(), Accept(), [this](std::exception_ptr failure) {
      if (failure) KVGATE_LOG(kError, "http", "accepting ended by an exception");
      accept_ended_.set_value();
    });
    for (const auto& loop : parts_->loops) {
      work_.emplace_back(loop->get_executor());
      threads_.emplace_back([&io = *loop] { RunLoop(io); });
    }
    return {};
  }

  ~AsioServer() override {
    StopAccepting();
    if (!threads_.empty()) {
      accept_ended_.get_future().wait();
      // A connection that was accepted before accepting ended is in the group by then.
      group_.CancelAll();
      while (!group_.WaitEmpty(std::chrono::seconds(1))) group_.CancelAll();
      for (const auto& jobs : {environment_.background, environment_.waiting}) {
        do {
          jobs->CancelAll();
        } while (!jobs->WaitEmpty(std::chrono::seconds(1)));
      }
    }
    pools_.reset();  // waits for running work
    work_.clear();
    for (const auto& loop : parts_->loops) loop->stop();
    for (std::thread& thread : threads_) thread.join();
  }

  uint16_t port() const override { return port_; }
  std::string url() const override { return url_; }
  std::string certificate_sha256() const override {
    const CurrentTls::Tls tls = parts_->tls.Get();
    return tls ? tls->certificate_sha256() : "";
  }
  size_t num_connections() const override { return group_.size(); }

  Result<void> Reload(const TargetOptions& options) override {
    const std::shared_ptr<const Targets> before = parts_->targets.Get();
    KVGATE_TRY(CurrentTls::Tls tls, socket::ListenerTls::Open(options.tls));
    KVGATE_TRY(auto targets, Targets::Open(options.proxy, service_.has_local(), before.get()));
    parts_->tls.Set(std::move(tls));
    parts_->targets.Set(std::move(targets));
    return {};
  }

  void EndAnswers() override { group_.EndAnswers(); }

  void BeginDrain() override {
    context_.draining.store(true);
    environment_.background->Close();
    environment_.waiting->Close();
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
    const char* const scheme = parts_->tls.Get() ? "https" : "http";
    url_ = endpoint.address().is_v6() ? fmt::format("{}://[{}]:{}", scheme, host, port_)
                                      : fmt::format("{}://{}:{}", scheme, host, port_);
    return {};
  }

  socket::Task<void> Accept() {
    while (!context_.draining.load() && !stopping_.load()) {
      asio::io_context& loop = *parts_->loops[num_accepted_++ % parts_->loops.size()];
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
    if (over_limit) service_.metrics().connections_refused.Add();
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

  static void RunLoop(asio::io_context& io) {
    Heartbeat heartbeat(io);
    while (true) {
      try {
        io.run();
        return;
      } catch (const std::exception& error) {
        LogFailure("http", "a handler threw", "", error);
      }
    }
  }

  const ServerOptions options_;
  service::Service& service_;
  const message::RequestGuard guard_;
  const std::unique_ptr<Parts> parts_;
  upstream::ModelListCache model_lists_;
  std::shared_ptr<BodyBudget> bodies_;
  std::shared_ptr<service::WorkPools> pools_;  // metrics are collected while it lives
  proxy::request::Environment environment_;
  ConnectionContext context_;
  std::vector<asio::executor_work_guard<asio::io_context::executor_type>> work_;
  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  ConnectionGroup group_;
  std::promise<void> accept_ended_;
  std::atomic<bool> stopping_{false};
  uint16_t port_ = 0;
  size_t num_accepted_ = 0;
  std::string url_;
  std::vector<std::thread> threads_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::Open(const ServerOptions& options,
                                             service::Service& service) {
  std::vector<std::string> hosts = options.allowed_hosts;
  hosts.push_back(options.address);
  KVGATE_TRY(CurrentTls::Tls tls, socket::ListenerTls::Open(options.targets.tls));
  KVGATE_TRY(auto targets, Targets::Open(options.targets.proxy, service.has_local(), nullptr));
  std::unique_ptr<AsioServer::Parts> parts(
      new AsioServer::Parts{.loops = MakeLoops(options.threads),
                            .targets = CurrentTargets(std::move(targets)),
                            .tls = CurrentTls(std::move(tls))});
  auto server = std::make_unique<AsioServer>(options, service, std::move(hosts), std::move(parts));
  KVGATE_TRY_VOID(server->Start());
  return server;
}

}  // namespace kvgate::http
