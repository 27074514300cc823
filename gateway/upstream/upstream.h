// Upstream: one configured provider with its connections (kept and new), its breaker and its TLS.
//
// Thread-safe. A leased channel belongs to the coroutine that leased it. Leased or kept, it stays
// with the execution context that it was made for, so no connection changes threads; channels must
// be destroyed before their contexts. Credential, CA file and proxy are read once, by Open.
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "gateway/config/config.h"
#include "gateway/dialect/form/dialect.h"
#include "gateway/upstream/breaker.h"
#include "gateway/upstream/upstream_meter.h"
#include "gateway/upstream/wire/channel.h"
#include "gateway/upstream/wire/dialer.h"
#include "gateway/upstream/wire/proxy_env.h"
#include "gateway/upstream/wire/task.h"

namespace kvgate::upstream {

// Guesses "openai", "anthropic", "deepseek", … from the host's name; else the dialect's own
// provider.
std::string GuessProvider(std::string_view host, dialect::form::Api dialect);

class Upstream {
 public:
  using Clock = SteadyClock;

  // Fails with kInvalidArgument, naming the upstream, for a bad URL, an unset variable or an
  // unusable CA file.
  static Result<std::unique_ptr<Upstream>> Open(
      const config::UpstreamConfig& config, const wire::Environment& environment,
      const wire::MakeDialer& make_dialer = wire::TcpDialer::Make);

  const config::UpstreamConfig& config() const { return config_; }
  const config::Url& url() const { return url_; }
  const std::string& name() const { return config_.name; }
  const std::string& provider() const { return provider_; }
  dialect::form::Api dialect() const { return dialect_; }
  const std::string& api_key() const { return api_key_; }
  // The value of the Host header; it has the port if that is not the scheme's default.
  const std::string& host() const { return host_; }
  bool Serves(std::string_view model) const;
  // Returns true if the upstream is assumed to have the endpoint. Chat and Responses need an openai
  // upstream configured with them, Messages and token counting an anthropic one; all others pass.
  bool Has(dialect::form::Endpoint endpoint) const;
  Breaker& breaker() { return breaker_; }
  // Requests may end after the upstream is gone.
  const std::shared_ptr<UpstreamMeter>& meter() const { return meter_; }

  using Executor = boost::asio::any_io_executor;
  // Returns a kept connection of the executor's context, or null if there is none.
  std::unique_ptr<wire::Channel> TakeKept(const Executor& executor);
  // Counts a connection as in use; returns false if the allowed number is reached.
  bool Reserve();
  void Release();
  // Keeps the channel for a later request, if keep_alive_seconds is not 0.
  void Keep(std::unique_ptr<wire::Channel> channel);
  size_t num_kept() const;
  int num_in_use() const { return in_use_.load(); }

  // Connects a fresh channel: name lookup, proxy tunnel, TLS handshake. It sets no timeout; the
  // caller ends it by closing the channel.
  wire::Task<Result<void>> Connect(wire::Channel& channel);

 private:
  explicit Upstream(const config::UpstreamConfig& config)
      : config_(config),
        breaker_({.failures = config.breaker_failures,
                  .pause = std::chrono::seconds(config.breaker_seconds)}) {}

  Result<void> OpenTls();
  wire::Task<Result<void>> Tunnel(wire::Channel& channel);
  wire::Task<Result<void>> Handshake(wire::Channel& channel);
  Error Failure(std::string_view what, std::string_view why) const;
  static int KeepSession(ssl_st* ssl, ssl_session_st* session);

  struct Kept {
    std::unique_ptr<wire::Channel> channel;
    Clock::time_point since;
  };
  // The kept channels of one context.
  struct Pool {
    boost::asio::execution_context* context = nullptr;
    std::vector<Kept> kept = {};  // the most recent one is last
  };
  Pool& PoolOf(boost::asio::execution_context& context);  // under mutex_

  const config::UpstreamConfig config_;
  config::Url url_;
  dialect::form::Api dialect_ = dialect::form::Api::kOpenAi;
  std::string provider_;
  std::string api_key_;
  std::string host_;
  std::optional<wire::Proxy> proxy_;
  std::unique_ptr<wire::Dialer> dialer_;  // of the proxy's host, if any, else the upstream's
  std::optional<boost::asio::ssl::context> tls_;
  Breaker breaker_;
  const std::shared_ptr<UpstreamMeter> meter_ = std::make_shared<UpstreamMeter>();
  std::atomic<int> in_use_{0};
  mutable std::mutex mutex_;
  std::vector<Pool> pools_;                            // one per context: a handful
  std::shared_ptr<ssl_session_st> session_ = nullptr;  // from the last handshake, to resume
};

}  // namespace kvgate::upstream
