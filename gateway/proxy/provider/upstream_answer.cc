#include "gateway/proxy/provider/upstream_answer.h"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "base/log.h"
#include "gateway/dialect/gemini/gemini_encoder.h"
#include "gateway/dialect/gemini/gemini_request.h"
#include "gateway/dialect/messages/messages.h"
#include "gateway/dialect/request_translator.h"
#include "gateway/proxy/provider/ordered_cache.h"
#include "gateway/route/route_table.h"

namespace kvgate::proxy::provider {

using request::Response;
using upstream::ExchangeOutcome;

namespace {

constexpr const char* kLeft = "The client left or stopped reading.";

int StatusOf(const Error& error) {
  switch (error.code) {
    case ErrorCode::kUnavailable:
      return 502;
    case ErrorCode::kDeadline:
      return 504;
    default:
      return 503;
  }
}

}  // namespace

UpstreamAnswer::UpstreamAnswer(request::RequestContext& request, const Options& options)
    : request_(request), options_(options), exchange_(request) {}

UpstreamAnswer::~UpstreamAnswer() { request_.sink().Watch(nullptr); }

void UpstreamAnswer::OnTick(Clock::time_point now) { exchange_.wire()->Tick(now); }

void UpstreamAnswer::OnGone() { exchange_.wire()->Abort(); }

Task<Result<upstream::Upstream*>> UpstreamAnswer::Choose() {
  if (options_.upstream != nullptr) co_return options_.upstream;
  const Result<void> scanned = co_await request_.Scan();
  if (!scanned) co_return scanned.error();
  model_ = request_.model();
  const bool is_unknown = options_.is_unknown_path;
  Result<upstream::Upstream*> chosen =
      request_.targets().upstreams->Choose({.dialect = request_.kind().dialect,
                                            .endpoint = request_.kind().endpoint,
                                            .name = request_.Header("x-kvgate-upstream"),
                                            .model = model_,
                                            .unknown_path = is_unknown});
  if (is_unknown && !(chosen && request_.caller().MaySendUnknown(**chosen))) {
    const std::string_view path = request::PathOf(request_.head().target);
    chosen = MakeError(ErrorCode::kNotFound, "proxy", fmt::format("There is no {} here.", path));
  }
  std::string model = model_;
  const Result<void> admitted = co_await request_.CheckPrompt(std::move(model));
  if (!admitted) co_return admitted.error();
  if (request_.Header("x-kvgate-private") == "1") {
    co_return MakeError(ErrorCode::kPermissionDenied, "proxy",
                        "x-kvgate-private keeps a request on this machine, and this one would go "
                        "to an upstream; a [[route]] can send it to the local engine.");
  }
  co_return chosen;
}

Task<Begun> UpstreamAnswer::Begin() {
  exchange_.end().body_read = Clock::now() - request_.head().received_at;
  const Result<upstream::Upstream*> chosen = co_await Choose();
  if (!options_.model.empty()) model_ = options_.model;
  exchange_.Open(chosen ? *chosen : nullptr, model_);
  if (!chosen) co_return Refuse(chosen.error());
  if (EstimatesTokens()) {
    Begun estimate = co_await Estimate();
    co_return estimate;
  }
  outgoing_.emplace(OutgoingRequest::Args{.request = request_,
                                          .upstream = **chosen,
                                          .model = model_,
                                          .is_renamed = !options_.model.empty()});
  const Result<void> built = co_await outgoing_->Build(exchange_.account());
  if (!built) co_return Refuse(built.error());
  // A client that left while nobody watched is not told of again.
  if (request_.sink().is_gone()) co_return Left();
  Begun begun = co_await Ask();
  co_return begun;
}

Task<Result<void>> UpstreamAnswer::Send() {
  exchange_.Connect();
  request_.sink().Watch(this);
  const Result<void> started = co_await exchange_.Send(*outgoing_);
  const bool is_refused =
      started && outgoing_->MayBeRefusal(exchange_.status()) && !request_.sink().is_gone();
  if (!is_refused) co_return started;
  const int refusal = exchange_.status();
  request_.sink().Watch(nullptr);
  co_await outgoing_->GiveBack();
  const std::shared_ptr<upstream::ExchangePreparation> refused = outgoing_->Withdraw();
  exchange_.Reopen(model_);
  exchange_.Connect();
  outgoing_.emplace(OutgoingRequest::Args{.request = request_,
                                          .upstream = *exchange_.upstream(),
                                          .model = model_,
                                          .is_renamed = !options_.model.empty(),
                                          .no_system_turn = true});
  const Result<void> built = co_await outgoing_->Build(exchange_.account());
  if (!built) co_return built;
  if (request_.sink().is_gone()) co_return MakeError(ErrorCode::kCancelled, "proxy", kLeft);
  request_.sink().Watch(this);
  const Result<void> again = co_await exchange_.Send(*outgoing_);
  // If it is refused again, its caller is at fault.
  if (again && exchange_.status() != refusal && refused) {
    request_.environment().options.prompts->NoteRefused(*refused);
  }
  co_return again;
}

Task<Begun> UpstreamAnswer::Ask() {
  const Result<void> started = co_await Send();
  if (PassesOn(started)) {
    request_.sink().Watch(nullptr);
    co_await outgoing_->GiveBack();
    exchange_.end().superseded = true;
    exchange_.Close();
    co_return Begun{.kind = Begun::Kind::kNext};
  }
  if (options_.participant != nullptr) options_.participant->Complete(Clock::now());
  if (!started) co_return Failure(started.error());
  OrderCache();
  // A body that has been sent need not be held during a long answer.
  if (!exchange_.wire()->sending()) outgoing_->Release();
  exchange_.TakeHead();
  Begun begun;
  if (outgoing_->translation() != nullptr) {
    translated_.emplace(exchange_, *outgoing_->translation());
    begun = co_await translated_->Begin();
  } else {
    forwarded_.emplace(exchange_);
    begun = co_await forwarded_->Begin();
  }
  is_whole_ = begun.kind == Begun::Kind::kWhole;
  if (begun.kind == Begun::Kind::kLeft) co_return Left();
  co_return begun;
}

// A prefix that the provider does not take is not kept either.
void UpstreamAnswer::OrderCache() {
  std::optional<service::explicit_cache::CacheOrder> order = outgoing_->TakeOrder();
  if (!order || exchange_.status() / 100 != 2) return;
  request_.environment().background->Spawn(
      std::make_shared<OrderedCache>(OrderedCache::Args{.request = request_,
                                                        .upstream = exchange_.upstream()->name(),
                                                        .model = model_,
                                                        .order = *std::move(order)}),
      request_.sink().executor());
}

Task<Result<Piece>> UpstreamAnswer::Next() {
  return forwarded_ ? forwarded_->Next() : translated_->Next();
}

void UpstreamAnswer::End(Fate fate) {
  upstream::ExchangeEnd& end = exchange_.end();
  if (forwarded_ && fate == Fate::kDelivered) forwarded_->Finish();
  const bool is_unfinished = fate == Fate::kClientLeft && !is_whole_;
  if (is_unfinished && end.outcome == ExchangeOutcome::kComplete) {
    end.outcome = ExchangeOutcome::kClientLeft;
    end.error = kLeft;
  }
  // An answer that its upstream cut was over before its client left.
  if (is_unfinished && end.outcome == ExchangeOutcome::kClientLeft && request_.sink().has_left()) {
    request_.environment().service.metrics().client_disconnects.Add();
  }
  request_.sink().Watch(nullptr);
  exchange_.Close();
}

bool UpstreamAnswer::PassesOn(const Result<void>& started) {
  if (!options_.has_next || request_.sink().is_gone()) return false;
  // The server wants answers to end, so none is begun.
  if (!started && started.error().code == ErrorCode::kCancelled) return false;
  if (started && !route::IsFallbackStatus(exchange_.status())) return false;
  std::string& error = exchange_.end().error;
  error = started
              ? fmt::format("'{}' answered {}", exchange_.upstream()->name(), exchange_.status())
              : started.error().detail;
  KVGATE_LOG(kWarning, "proxy", "request {}: {}; the next target is asked",
             request_.head().request_id, error);
  return true;
}

Begun UpstreamAnswer::Refuse(const Error& error) {
  Response response = request::ErrorResponse(error);
  exchange_.end().outcome = ExchangeOutcome::kRefused;
  exchange_.end().error = error.detail;
  exchange_.end().status = response.status;
  is_whole_ = true;
  return {.kind = Begun::Kind::kWhole, .head = {}, .response = std::move(response)};
}

Begun UpstreamAnswer::Left() {
  upstream::ExchangeEnd& end = exchange_.end();
  end.outcome = ExchangeOutcome::kClientLeft;
  end.status = request_.sink().has_left() ? 499 : 503;
  if (end.error.empty()) end.error = kLeft;
  request_.Count(end.status);
  return {.kind = Begun::Kind::kLeft, .head = {}, .response = {}};
}

Begun UpstreamAnswer::Failure(const Error& error) {
  upstream::ExchangeEnd& end = exchange_.end();
  end.error = error.detail;
  if (request_.sink().is_gone()) return Left();
  KVGATE_LOG(kWarning, "proxy", "request {}: {}", request_.head().request_id, error.detail);
  Response response = request::StatusResponse(StatusOf(error), error.detail);
  if (response.status == 503) {
    const int pause = error.retry_after_seconds > 0 ? error.retry_after_seconds : 1;
    response.headers.emplace_back("retry-after", fmt::format("{}", pause));
  }
  end.outcome =
      exchange_.wire()->num_attempts() == 0 ? ExchangeOutcome::kRefused : ExchangeOutcome::kFailed;
  end.status = response.status;
  is_whole_ = true;
  return {.kind = Begun::Kind::kWhole, .head = {}, .response = std::move(response)};
}

// Other upstreams than those of the client's own API cannot count its tokens.
bool UpstreamAnswer::EstimatesTokens() const {
  using dialect::form::Endpoint;
  const Endpoint endpoint = request_.kind().endpoint;
  return (endpoint == Endpoint::kCountTokens || endpoint == Endpoint::kCountContent) &&
         !exchange_.upstream()->Has(endpoint);
}

Task<Begun> UpstreamAnswer::Estimate() {
  Result<int64_t> tokens = MakeError(ErrorCode::kInternal, "translate", "counting failed");
  const bool is_gemini = request_.kind().endpoint == dialect::form::Endpoint::kCountContent;
  std::function<void()> work = [&] {
    const std::string_view body = request_.body().text();
    tokens = dialect::EstimateTokens(is_gemini ? dialect::gemini::CountedRequest(body) : body);
  };
  const Result<void> ran =
      co_await request_.work().RunOn(request_.work().pools().request, std::move(work));
  if (!ran) tokens = ran.error();
  Response response = !tokens     ? request::ErrorResponse(tokens.error())
                      : is_gemini ? Response{.body = dialect::gemini::EncodeTotalTokens(*tokens)}
                                  : Response{.body = dialect::messages::EncodeTokenCount(*tokens)};
  exchange_.end().outcome = ExchangeOutcome::kRefused;
  exchange_.end().error = "The upstream does not count tokens; the answer is an estimate.";
  exchange_.end().status = response.status;
  is_whole_ = true;
  co_return Begun{.kind = Begun::Kind::kWhole, .head = {}, .response = std::move(response)};
}

}  // namespace kvgate::proxy::provider
