#include "gateway/proxy/provider/ordered_cache.h"

#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/ledger/ledger.h"
#include "gateway/upstream/exchange_observer.h"

namespace kvgate::proxy::provider {

using Clock = SteadyClock;
using request::Task;

namespace {

// A prefix of a million tokens is written in about a minute. The planner orders no other cache for
// the same prefix meanwhile.
constexpr std::chrono::seconds kOrderTimeout{120};
static_assert(kOrderTimeout.count() < prompt::planner::ExplicitCaches::kOrderSeconds);
constexpr std::chrono::milliseconds kTickInterval{200};
constexpr size_t kAnswerBytesMax = size_t{1} << 20;
constexpr auto kDialect = dialect::form::Api::kGemini;

}  // namespace

OrderedCache::OrderedCache(Args args)
    : environment_(args.request.environment()),
      targets_(environment_.targets.Get()),
      upstream_(std::move(args.upstream)),
      model_(std::move(args.model)),
      order_(std::move(args.order)),
      tenant_(args.request.caller().tenant()),
      key_(args.request.caller().key_config() == nullptr
               ? std::string()
               : args.request.caller().key_config()->name),
      executor_(args.request.sink().executor()),
      tick_(executor_) {
  const request::Caller& caller = args.request.caller();
  if (caller.key_is_credential()) return;
  if (args.request.kind().dialect == kDialect) {
    authorization_ = args.request.Header("authorization");
    api_key_ = args.request.Header("x-goog-api-key");
  } else {
    api_key_ = caller.provider_credential();
  }
}

void OrderedCache::ArmTick() {
  tick_.expires_after(kTickInterval);
  tick_.async_wait([weak = weak_from_this()](const boost::system::error_code& code) {
    const auto self = weak.lock();
    if (code || self == nullptr || self->exchange_ == nullptr) return;
    self->exchange_->Tick(Clock::now());
    self->ArmTick();
  });
}

std::string OrderedCache::Head(const upstream::Upstream& upstream) const {
  upstream::wire::HeaderFields fields = {{.name = "Accept", .value = "application/json"},
                                         {.name = "User-Agent", .value = "kvgate"},
                                         {.name = "Content-Type", .value = "application/json"}};
  if (!authorization_.empty()) fields.push_back({.name = "authorization", .value = authorization_});
  if (!api_key_.empty()) fields.push_back({.name = "x-goog-api-key", .value = api_key_});
  const std::string target =
      upstream::wire::UpstreamTarget(upstream.url().path, upstream.dialect(), order_.path);
  return upstream::wire::RequestHead({.method = order_.prolongs ? "PATCH" : "POST",
                                      .target = target,
                                      .host = upstream.host(),
                                      .fields = fields,
                                      .body_bytes = order_.body.size(),
                                      .api_key = upstream.api_key(),
                                      .dialect = upstream.dialect()});
}

Task<void> OrderedCache::Run() {
  upstream::Upstream* const upstream = targets_->upstreams->Find(upstream_);
  // It has gone from the configuration meanwhile.
  if (upstream == nullptr || upstream->dialect() != kDialect || is_cancelled_) co_return;
  const int64_t begun_us = WallClock::NowUs();
  begun_at_ = std::chrono::system_clock::time_point(std::chrono::microseconds(begun_us));
  const std::string head = Head(*upstream);
  upstream::Exchange exchange(*upstream, executor_);
  exchange.BoundBy(Clock::now() + kOrderTimeout);
  exchange_ = &exchange;
  ArmTick();
  Result<std::string> body =
      co_await upstream::Fetch(exchange, {.head = head, .body = order_.body}, kAnswerBytesMax);
  exchange_ = nullptr;
  tick_.cancel();
  const std::string failure = body ? std::string() : body.error().detail;
  const int status = body ? exchange.status() : 0;
  // Its time may have begun with the request.
  const Result<int64_t> num_tokens =
      order_.caching->NoteOutcome(order_, status, body ? *body : std::string(), begun_us);
  Account(*upstream, exchange, num_tokens, failure);
  if (num_tokens) {
    KVGATE_LOG(kInfo, "proxy", "'{}' keeps {} tokens of tools and system text of {} for {} s{}",
               upstream_, *num_tokens, model_, order_.ttl_seconds,
               order_.prolongs ? " more" : ", because its own cache missed them");
  } else if (!is_cancelled_) {
    KVGATE_LOG(kWarning, "proxy", "'{}' keeps no explicit cache for {}: {}", upstream_, model_,
               failure.empty() ? num_tokens.error().detail : failure);
  }
}

void OrderedCache::Cancel() {
  is_cancelled_ = true;
  if (exchange_ != nullptr) exchange_->Abort();
}

void OrderedCache::Account(const upstream::Upstream& upstream, const upstream::Exchange& exchange,
                           const Result<int64_t>& num_tokens, const std::string& failure) {
  upstream::ExchangeLog* const log = environment_.options.exchange_log;
  if (log == nullptr) return;
  const std::string id = ledger::MakeRequestId();
  const auto observer = log->Begin({.request_id = id,
                                    .received_at = begun_at_,
                                    .upstream = upstream.name(),
                                    .provider = upstream.provider(),
                                    .dialect = kDialect,
                                    .endpoint = dialect::form::Endpoint::kOther,
                                    .method = order_.prolongs ? "PATCH" : "POST",
                                    .path = request::PathOf(order_.path),
                                    .model = model_,
                                    .tenant = tenant_,
                                    .key = key_,
                                    .body = order_.body,
                                    .content_encoding = {},
                                    .purpose = kCachePurpose});
  const bool is_answered = failure.empty();
  observer->OnSent(order_.body, order_.body);
  if (is_answered) {
    observer->OnHead({.status = exchange.status(),
                      .content_type = "application/json",
                      .content_encoding = {},
                      .upstream_request_id = {}});
  }
  if (num_tokens && *num_tokens > 0) {
    observer->OnKept({.num_tokens = *num_tokens,
                      .seconds = order_.ttl_seconds,
                      .is_written = !order_.prolongs});
  }
  const auto taken = std::chrono::microseconds(WallClock::NowUs()) - begun_at_.time_since_epoch();
  observer->OnEnd({.outcome = is_answered ? upstream::ExchangeOutcome::kComplete
                                          : upstream::ExchangeOutcome::kFailed,
                   .status = is_answered ? exchange.status() : 502,
                   .error = failure,
                   .num_attempts = exchange.num_attempts(),
                   .ended = taken});
}

}  // namespace kvgate::proxy::provider
