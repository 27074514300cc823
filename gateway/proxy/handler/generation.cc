#include "gateway/proxy/handler/generation.h"

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "gateway/proxy/handler/compaction_step.h"
#include "gateway/proxy/handler/own_request.h"
#include "gateway/proxy/handler/prompts/prompt_step.h"
#include "gateway/proxy/provider/compacted_answer.h"
#include "gateway/proxy/provider/reading_answer.h"
#include "gateway/proxy/provider/session_answer.h"
#include "gateway/upstream/wire/content_decoder.h"

namespace kvgate::proxy::handler {

using provider::LocalAnswer;
using provider::UpstreamAnswer;
using request::Response;

namespace {

using Clock = SteadyClock;

// Counts tools and system; no provider's cache makes it worth waiting for a shorter prefix.
constexpr int64_t kFlightTokensMin = 1024;

class GenerationHandler final : public Handler {
 public:
  Task<void> Serve(RequestContext& request) const override {
    RequestRouter router(request);
    co_await router.Serve();
  }
};

class UnknownPathHandler final : public Handler {
 public:
  Task<void> Serve(RequestContext& request) const override {
    RequestRouter router(request);
    co_await router.Forward(/*is_unknown_path=*/true);
  }
};

// What a request that goes on with a result of the gateway's own tool is for, as a source of the
// ledger.
constexpr std::string_view kReadPurpose = "result_read";

// Asks for the next round of an answer, with the key of its caller.
Task<provider::RoundReply> AskRound(RequestContext& request, const session::SessionTurn& turn,
                                    std::string body, provider::PassPiece pass) {
  OwnRequests requests(request, /*is_background=*/false);
  // The session is only recognised, as the conversation whose prefix this is.
  requests.Add(session::kKeyHeader, turn.ask.key);
  requests.Add(session::kModeHeader, "recognise");
  KeepingSink& sink = requests.sink();
  const std::unique_ptr<RequestContext> context =
      requests.Open(PathOf(turn.request.dialect), kReadPurpose);
  sink.pass = std::move(pass);
  if (!context->ReplaceBody(std::move(body))) co_return provider::RoundReply{.status = 503};
  co_await requests.Serve(Generation(), *context, request.sink());
  sink.pass = {};
  co_return provider::RoundReply{
      .status = sink.status, .body = std::move(sink.body), .is_gone = sink.is_gone()};
}

}  // namespace

route::Route* RequestRouter::ModelRoute() const {
  const request::Targets& targets = request_.targets();
  if (targets.routes->empty() || request_.place().counts_tokens() ||
      !request_.Header("x-kvgate-upstream").empty()) {
    return nullptr;
  }
  return targets.routes->Find(request_.scan().model);
}

bool RequestRouter::RunsLocally() const {
  const service::Service& service = request_.environment().service;
  const upstream::Upstreams& upstreams = *request_.targets().upstreams;
  const std::string& model = request_.scan().model;
  if (upstreams.empty()) return true;
  // A model that only makes embeddings is refused here, where that can be said.
  const auto* const embeddings = request_.environment().options.embeddings;
  if (embeddings != nullptr && embeddings->Serves(model) && !service.ServesLocal(model)) {
    return request_.Header("x-kvgate-upstream").empty();
  }
  if (!service.has_local() || !request_.Header("x-kvgate-upstream").empty()) return false;
  if (service.ServesLocal(model)) return true;
  // A body that is encoded and unreadable is left to an upstream instead of the local model.
  if (request_.body().is_encoded() && !request_.body().is_decoded()) return false;
  return model.empty() || !upstreams.Serves({.dialect = request_.kind().dialect,
                                             .endpoint = request_.kind().endpoint,
                                             .model = model});
}

Task<void> RequestRouter::Serve() {
  if (prompts::PromptStep::IsWanted(request_)) {
    const bool goes_on =
        co_await prompts::PromptStep(request_, DialectWithTurns(request_.place().route)).Begin();
    if (!goes_on) co_return;
  }
  const CompactionStep::Outcome outcome = co_await CompactionStep(request_).Begin();
  if (outcome == CompactionStep::Outcome::kForwards) co_await Forward(/*is_unknown_path=*/false);
  if (outcome != CompactionStep::Outcome::kGoesOn) co_return;
  if (SessionStep::IsWanted(request_)) {
    SessionStep::AsksLocal asks_local = [this] { return ModelRoute() == nullptr && RunsLocally(); };
    const bool goes_on = co_await session_.Begin(std::move(asks_local));
    if (!goes_on) co_return;
  }
  const bool is_encoded = request_.body().is_encoded();
  const bool has_upstreams = !request_.targets().upstreams->empty();
  Result<void> scanned;
  if (has_upstreams || request_.caller().key() != nullptr || is_encoded) {
    scanned = co_await request_.Scan();
  }
  if (!scanned) {
    session_.LetGo();
    Error error = scanned.error();
    co_await request_.Refuse(std::move(error));
    co_return;
  }
  if (route::Route* const route = ModelRoute(); route != nullptr) {
    co_await ServeRouted(*route);
    co_return;
  }
  if (!RunsLocally()) {
    co_await Forward(/*is_unknown_path=*/false);
    co_return;
  }
  if (const Result<void> admitted = request_.Admit(request_.scan().model); !admitted) {
    session_.LetGo();
    Error error = admitted.error();
    co_await request_.Refuse(std::move(error));
    co_return;
  }
  if (is_encoded && !request_.body().is_decoded()) {
    Response refusal = request::EncodingResponse(request_.Header("content-encoding"),
                                                 request_.environment().options.body_bytes_max);
    co_await request_.Reply(std::move(refusal));
    co_return;
  }
  request_.body().TakeDecoded();
  if (request_.place().counts_tokens()) {
    co_await CountTokens();
  } else {
    co_await AskLocal({});
  }
}

Task<void> RequestRouter::Forward(bool is_unknown_path) {
  co_await AskUpstream({.is_unknown_path = is_unknown_path});
}

Task<void> RequestRouter::ServeRouted(route::Route& route) {
  std::string model = request_.scan().model;
  const Result<void> admitted = co_await request_.CheckPrompt(std::move(model));
  Result<service::Prompts::Known> recognized = service::Prompts::Known();
  if (admitted) recognized = co_await request_.Recognize();
  if (!admitted || !recognized) {
    Error error = admitted ? recognized.error() : admitted.error();
    co_await RefuseRouted(std::move(error));
    co_return;
  }
  const service::Prompts::Known& known = *recognized;
  const route::Query query = {
      .conversation = known.conversation,
      .prefix = known.prefix,
      .num_tokens = known.num_tokens,
      .is_private = request_.Header("x-kvgate-private") == "1",
      .is_hard = known.thinks_hard || request_.Header("x-kvgate-intent") == "hard",
      .now = Clock::now()};
  co_await AskTargets(route, query);
}

Task<void> RequestRouter::AskTargets(route::Route& route, const route::Query& query) {
  const service::Service& service = request_.environment().service;
  const auto look = [this, &service, now = query.now](const route::Target& target) {
    if (target.is_local()) return route::Affinity::Member{.usable = service.ready()};
    upstream::Upstream& upstream = *request_.targets().upstreams->Find(target.upstream);
    return route::Affinity::Member{.usable = !upstream.breaker().IsOpen(now),
                                   .num_running = upstream.num_in_use()};
  };
  std::vector<const route::Target*> targets = route.Candidates(query, look);
  if (query.is_private && !service.has_local()) targets.clear();
  if (targets.empty()) {
    Error error =
        MakeError(ErrorCode::kPermissionDenied, "route",
                  "x-kvgate-private keeps a request on this machine, which has no local engine.");
    co_await RefuseRouted(std::move(error));
    co_return;
  }
  const bool goes_on = co_await WaitForFlight(route);
  if (!goes_on) {
    Error error = MakeError(ErrorCode::kUnavailable, "proxy", "The server ends; try again.");
    error.retryable = true;
    co_await RefuseRouted(std::move(error));
    co_return;
  }
  bool is_answered = false;
  for (size_t i = 0; i < targets.size() && !is_answered; ++i) {
    is_answered = co_await AskTarget(*targets[i], i + 1 < targets.size());
    if (is_answered) route.Keep(query, *targets[i]);
  }
}

Task<void> RequestRouter::RefuseRouted(Error error) {
  session_.LetGo();
  provider::UpstreamExchange account(request_);
  account.Open(nullptr, request_.scan().model);
  Response refusal = request::ErrorResponse(error);
  account.end().outcome = upstream::ExchangeOutcome::kRefused;
  account.end().error = std::move(error.detail);
  account.end().status = refusal.status;
  co_await request_.Reply(std::move(refusal));
  account.Close();
}

Task<bool> RequestRouter::AskTarget(const route::Target& target, bool has_next) {
  request_.notes().left_out.clear();  // it may hold a previous target's
  if (target.is_local()) {
    const bool is_answered = co_await AskLocal({.any_model = true, .has_next = has_next});
    co_return is_answered;
  }
  const bool is_answered =
      co_await AskUpstream({.upstream = request_.targets().upstreams->Find(target.upstream),
                            .model = target.model,
                            .has_next = has_next,
                            .participant = participant_.get()});
  co_return is_answered;
}

Task<bool> RequestRouter::AskLocal(LocalAnswer::Options options) {
  LocalAnswer answer(request_, options);
  const bool is_answered = co_await DeliverFrom(answer);
  co_return is_answered;
}

Task<bool> RequestRouter::AskUpstream(UpstreamAnswer::Options options) {
  UpstreamAnswer answer(request_, options);
  const bool is_answered = co_await DeliverFrom(answer);
  co_return is_answered;
}

Task<bool> RequestRouter::DeliverFrom(provider::Answer& answer) {
  if (session_.turn() == nullptr) {
    const bool is_answered = co_await DeliverAlone(answer);
    if (request_.environment().options.sessions != nullptr) session_.AfterAnswer();
    co_return is_answered;
  }
  session::Sessions& sessions = *request_.environment().options.sessions;
  std::optional<provider::ReadingAnswer> reading;
  if (session_.turn()->read_bytes > 0) {
    provider::AskRound ask = [this](std::string body, provider::PassPiece pass) {
      return AskRound(request_, *session_.turn(), std::move(body), std::move(pass));
    };
    reading.emplace(request_, sessions, answer, session_.turn(), std::move(ask));
  }
  provider::Answer& said = reading ? static_cast<provider::Answer&>(*reading) : answer;
  provider::SessionAnswer recorded(request_, sessions, said, session_.turn());
  const bool is_answered = co_await provider::Deliver(recorded, request_);
  session_.AfterAnswer();
  co_return is_answered;
}

Task<bool> RequestRouter::DeliverAlone(provider::Answer& answer) {
  if (!request_.notes().inserted) {
    const bool is_answered = co_await provider::Deliver(answer, request_);
    co_return is_answered;
  }
  provider::CompactedAnswer compacted(request_, answer, request_.notes().inserted);
  const bool is_answered = co_await provider::Deliver(compacted, request_);
  co_return is_answered;
}

Task<void> RequestRouter::CountTokens() {
  using dialect::form::Dialect;
  const dialect::form::Endpoint endpoint = request_.kind().endpoint;
  const bool is_gemini = endpoint == dialect::form::Endpoint::kCountContent;
  const bool is_messages = endpoint == dialect::form::Endpoint::kCountTokens;
  const std::string credential = request_.caller().credential();
  dialect::TranslatedRequest translated;
  if (is_gemini) {
    Result<dialect::TranslatedRequest> made = co_await provider::TranslateForEngine(request_);
    if (!made) {
      Error error = made.error();
      co_await request_.Refuse(std::move(error));
      co_return;
    }
    translated = std::move(*made);
  }
  service::CompletionStart start(
      request_.environment().service,
      {.dialect = is_gemini     ? Dialect::kChatCompletions
                  : is_messages ? Dialect::kMessages
                                : Dialect::kResponses,
       .answer_dialect = is_gemini ? std::optional(Dialect::kGemini) : std::nullopt,
       .body = is_gemini ? translated.body : request_.body().bytes(),
       .credential = credential,
       .request_id = {},
       .wake = {}},
      service::CompletionStart::Use::kCount);
  co_await provider::DriveStart(request_, start);
  Result<std::string> body = start.TakeCount();
  if (body && request_.notes().inserted) {
    *body = session::compaction::Inserter(request_.notes().inserted).TakeBody(*body);
  }
  Response response =
      body ? Response{.body = std::move(*body)} : request::ErrorResponse(body.error());
  co_await request_.Reply(std::move(response));
}

Task<bool> RequestRouter::WaitForFlight(route::Route& route) {
  const int wait_ms = route.config().single_flight_ms;
  const Result<service::Prompts::Known> known = co_await request_.Recognize();
  if (wait_ms == 0 || !known || known->num_prefix_tokens < kFlightTokensMin) co_return true;
  request::ResponseSink& sink = request_.sink();
  participant_ = route.flights().Join(known->prefix, sink.signal().MakeWake(), Clock::now());
  const Clock::time_point until = Clock::now() + std::chrono::milliseconds(wait_ms);
  request::Watcher watcher;
  sink.Watch(&watcher);
  while (!participant_->leads() && !participant_->completed() && Clock::now() < until &&
         !sink.is_gone() && !sink.is_to_end()) {
    co_await sink.signal().SleepUntil(until);
  }
  sink.Watch(nullptr);
  co_return !sink.is_to_end();
}

const Handler& Generation() {
  static const GenerationHandler handler;
  return handler;
}

const Handler& UnknownPath() {
  static const UnknownPathHandler handler;
  return handler;
}

}  // namespace kvgate::proxy::handler
