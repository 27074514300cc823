#include "store/remote/resp_client.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/digest.h"
#include "base/log.h"
#include "store/remote/breaker.h"
#include "store/remote/cluster_router.h"
#include "store/remote/connection_pool.h"
#include "store/remote/endpoint_router.h"
#include "store/remote/hash_slots.h"

namespace kvgate::store::remote {
namespace {

// No call lasts longer, whatever its deadline is.
constexpr std::chrono::hours kCallMax{1};

// By this a server knows a script. Returns nothing where OpenSSL may not compute SHA-1.
std::string ScriptDigest(std::string_view script) {
  std::array<uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (EVP_Digest(script.data(), script.size(), digest.data(), &size, EVP_sha1(), nullptr) != 1) {
    return {};
  }
  return ToHex(std::span(digest).first(size));
}

class PooledRespClient final : public RespClient {
 public:
  PooledRespClient(RespOptions options, std::unique_ptr<TlsContext> tls)
      : breaker_({.failures_max = options.failures_max, .pause = options.pause}),
        pool_({.tls = std::move(tls),
               .user = options.address.user,
               .password = std::move(options.password),
               .database = options.address.database,
               .reply_bytes_max = options.reply_bytes_max},
              {.kept_max = options.connections_kept, .connect_timeout = options.connect_timeout}),
        endpoints_(pool_, options.address.endpoints),
        cluster_(pool_, options.address.endpoints) {}

  Result<std::vector<RespReply>> Call(std::span<const RespCommand> commands,
                                      TimePoint deadline) override {
    KVGATE_CHECK(!commands.empty() && std::ranges::none_of(commands,
                                                           [](const RespCommand& command) {
                                                             return command.words.empty();
                                                           }),
                 "a call has commands, and each has words");
    const TimePoint now = SteadyClock::now();
    if (deadline <= now) {
      return Ended(MakeError(ErrorCode::kDeadline, "store.remote",
                             "the time of a call had passed before it began"));
    }
    if (!breaker_.Allow(now)) return Ended(Paused(now));
    // Sockets take real time, whatever the clock of the caller says.
    const auto left = std::min<SteadyClock::duration>(deadline - now, kCallMax);
    Result<RespReplies> replies = Send(commands, std::chrono::steady_clock::now() + left);
    if (replies) {
      if (breaker_.Succeed()) KVGATE_LOG(kInfo, "store.remote", "the shared store answers again");
      return Ended(std::move(replies));
    }
    if (breaker_.Fail(SteadyClock::now())) {
      KVGATE_LOG(kWarning, "store.remote", "{}; serving goes on without the shared store",
                 replies.error().detail);
    }
    {
      const std::lock_guard lock(mutex_);
      failure_ = replies.error().detail;
    }
    return Ended(std::move(replies));
  }

  bool is_paused() const override { return breaker_.IsPaused(SteadyClock::now()); }

  RespStats Stats() const override {
    const RespConnection::Traffic& traffic = pool_.traffic();
    RespStats stats{.num_connects = traffic.num_connects,
                    .bytes_sent = traffic.bytes_sent,
                    .bytes_received = traffic.bytes_received,
                    .is_paused = is_paused(),
                    .server = pool_.server()};
    const std::lock_guard lock(mutex_);
    stats.num_calls = num_calls_;
    stats.num_failed = num_failed_;
    if (answered_) stats.endpoint = answered_->ToString();
    stats.error = error_;
    return stats;
  }

 private:
  Result<RespReplies> Send(std::span<const RespCommand> commands,
                           RespConnection::TimePoint deadline) {
    if (cluster_.is_active()) return cluster_.Call(commands, deadline);
    KVGATE_TRY(EndpointRouter::Answer answer, endpoints_.Call(commands, deadline));
    Answered(answer.endpoint);
    // Some nodes do not say that they belong to a cluster until they are asked for a key.
    if (answer.replies.empty()) return cluster_.Call(commands, deadline);
    const bool is_redirected = std::ranges::any_of(answer.replies, [&](const RespReply& reply) {
      return ReadRedirect(reply, answer.endpoint).has_value();
    });
    if (!is_redirected) return std::move(answer.replies);
    return cluster_.Follow(commands, answer.endpoint, std::move(answer.replies), deadline);
  }

  void Answered(const RespEndpoint& endpoint) {
    const std::lock_guard lock(mutex_);
    if (answered_ != endpoint) answered_ = endpoint;
  }

  Error Paused(TimePoint now) const {
    const auto left = breaker_.UntilTrial(now);
    const std::lock_guard lock(mutex_);
    Error error = MakeError(ErrorCode::kUnavailable, "store.remote",
                            fmt::format("calls pause for {} ms more, because several have failed: "
                                        "{}",
                                        left.count(), failure_));
    error.retryable = true;
    error.retry_after_seconds =
        static_cast<int>(std::chrono::ceil<std::chrono::seconds>(left).count());
    return error;
  }

  Result<RespReplies> Ended(Result<RespReplies> replies) {
    const std::lock_guard lock(mutex_);
    ++num_calls_;
    if (replies) {
      error_.clear();
    } else {
      ++num_failed_;
      error_ = replies.error().detail;
    }
    return replies;
  }

  Breaker breaker_;
  ConnectionPool pool_;
  EndpointRouter endpoints_;
  ClusterRouter cluster_;

  mutable std::mutex mutex_;
  uint64_t num_calls_ = 0;
  uint64_t num_failed_ = 0;
  std::optional<RespEndpoint> answered_;
  std::string error_;    // of the last call
  std::string failure_;  // of the last call that was made and failed
};

}  // namespace

Result<std::unique_ptr<RespClient>> RespClient::Make(RespOptions options) {
  KVGATE_CHECK(!options.address.endpoints.empty(), "a store has an endpoint");
  std::unique_ptr<TlsContext> tls;
  if (options.address.has_tls) {
    KVGATE_TRY(tls, TlsContext::Make(options.ca_file));
  }
  return std::make_unique<PooledRespClient>(std::move(options), std::move(tls));
}

Result<RespReply> RespClient::CallOne(const RespCommand& command, TimePoint deadline) {
  KVGATE_TRY(std::vector<RespReply> replies, Call(std::span(&command, 1), deadline));
  return std::move(replies.front());
}

Result<RespReply> RespClient::CallScript(const ScriptCall& call, TimePoint deadline) {
  KVGATE_CHECK(!call.keys.empty(), "a script has a key");
  const std::string digest = ScriptDigest(call.script);
  const std::string num_keys = std::to_string(call.keys.size());
  RespCommand command{.words = {"EVALSHA", digest, num_keys}, .key = call.keys.front()};
  command.words.insert(command.words.end(), call.keys.begin(), call.keys.end());
  command.words.insert(command.words.end(), call.arguments.begin(), call.arguments.end());
  if (!digest.empty()) {
    KVGATE_TRY(RespReply reply, CallOne(command, deadline));
    if (!reply.is_error() || !reply.text.starts_with("NOSCRIPT")) return reply;
  }
  command.words[0] = "EVAL";
  command.words[1] = call.script;
  return CallOne(command, deadline);
}

}  // namespace kvgate::store::remote
