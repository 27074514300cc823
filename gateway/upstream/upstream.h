// Upstream: one configured provider: its connections, kept and new, its breaker and its TLS.
//
// Threads: thread-safe; a leased channel belongs to the coroutine that leased it, and to the
// execution context that it was made for, also while it is kept: no connection changes threads.
// Channels are gone before their contexts. What it needs of the outside (credential, CA file,
// proxy) is read once, when it is opened.
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

#include <kvgate/result.h>

#include "gateway/config/config.h"
#include "gateway/upstream/breaker.h"
#include "gateway/upstream/channel.h"
#include "gateway/upstream/dialect.h"
#include "gateway/upstream/name_lookup.h"
#include "gateway/upstream/wire/proxy_env.h"
#include "gateway/upstream/wire/task.h"

namespace kvgate::upstream {

// "openai", "anthropic", "deepseek", … by the host's name, else the dialect's own.
std::string GuessProvider(std::string_view host, Dialect dialect);

class Upstream {
 public:
  using Clock = std::chrono::steady_clock;

  // kInvalidArgument: the URL, an unset variable, the CA file; it names the upstream.
  static Result<std::unique_ptr<Upstream>> Open(const config::UpstreamConfig& config,
                                                const Environment& environment);

  const config::UpstreamConfig& config() const { return config_; }
  const config::Url& url() const { return url_; }
  const std::string& name() const { return config_.name; }
  const std::string& provider() const { return provider_; }
  Dialect dialect() const { return dialect_; }
  const std::string& api_key() const { return api_key_; }
  // For the Host header: the port where it is not the scheme's own.
  const std::string& host() const { return host_; }
  bool Serves(std::string_view model) const;
  // Whether it is said to have the endpoint: of generations those of its dialect, and of OpenAI's
  // two those that are configured; of anything else nobody says.
  bool Has(Endpoint endpoint) const;
  Breaker& breaker() { return breaker_; }

  using Executor = boost::asio::any_io_executor;
  // A kept connection of the executor's context, or null where there is none.
  std::unique_ptr<Channel> TakeKept(const Executor& executor);
  // Counts one that is going to be in use; false: as many as allowed are.
  bool Reserve();
  void Release();
  // To be kept for the next request, if it may be.
  void Keep(std::unique_ptr<Channel> channel);
  size_t num_kept() const;
  int num_in_use() const { return in_use_.load(); }

  // Connects a fresh channel: resolves, goes through the proxy, shakes hands. The caller ends it by
  // closing the channel; how long it takes is the caller's to bound.
  Task<Result<void>> Connect(Channel& channel);

 private:
  explicit Upstream(const config::UpstreamConfig& config)
      : config_(config),
        breaker_({.failures = config.breaker_failures,
                  .pause = std::chrono::seconds(config.breaker_seconds)}) {}

  Result<void> OpenTls();
  Task<Result<void>> ConnectTcp(Channel& channel);
  Task<Result<void>> Tunnel(Channel& channel);
  Task<Result<void>> Handshake(Channel& channel);
  Error Failure(std::string_view what, std::string_view why) const;
  static int KeepSession(ssl_st* ssl, ssl_session_st* session);

  struct Kept {
    std::unique_ptr<Channel> channel;
    Clock::time_point since;
  };
  // The kept channels of one context.
  struct Pool {
    boost::asio::execution_context* context = nullptr;
    std::vector<Kept> kept = {};  // the last is the freshest
  };
  Pool& PoolOf(boost::asio::execution_context& context);  // under mutex_

  const config::UpstreamConfig config_;
  config::Url url_;
  Dialect dialect_ = Dialect::kOpenAi;
  std::string provider_;
  std::string api_key_;
  std::string host_;
  std::optional<Proxy> proxy_;
  std::optional<NameLookup> lookup_;  // of the proxy's host, or of its own
  std::optional<boost::asio::ssl::context> tls_;
  Breaker breaker_;
  std::atomic<int> in_use_{0};
  mutable std::mutex mutex_;
  std::vector<Pool> pools_;                            // one a context: a handful
  std::shared_ptr<ssl_session_st> session_ = nullptr;  // of the last handshake, to resume
};

}  // namespace kvgate::upstream
