// Serves requests for a model that has a route: its targets are asked one after the other until one
// answers. No byte reaches the client before that.
#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "gateway/http/connection.h"
#include "gateway/http/translated_answer.h"
#include "gateway/protocol/form/errors.h"

namespace kvgate::http {

using message::RouteMatch;
using socket::Task;

namespace {

using Clock = std::chrono::steady_clock;

// Counts tools and system; no provider's cache makes it worth waiting for a shorter prefix.
constexpr int64_t kFlightTokensMin = 1024;

}  // namespace

// The state of one routed request; lives in ServeRouted's frame.
struct Connection::Routing {
  RouteMatch match;
  route::Route& route;
  route::Query query = {};
  // Null if requests do not wait for each other.
  std::unique_ptr<route::SingleFlight::Participant> participant = nullptr;
};

route::Route* Connection::ModelRoute(const RouteMatch& match) const {
  const bool counts =
      match.route == message::Route::kCountTokens || match.route == message::Route::kInputTokens;
  if (targets_->routes->empty() || counts || !Header("x-kvgate-upstream").empty()) return nullptr;
  return targets_->routes->Find(scan_.model);
}

Task<Result<service::Prompts::Known>> Connection::Recognize() {
  if (known_) co_return *known_;
  service::Prompts::Known known;
  if (context_.options.prompts != nullptr && scan_.readable) {
    const std::string tenant = Tenant();
    const upstream::wire::HeaderFields fields = RequestFields();
    std::function<void()> work = [&] {
      known =
          context_.options.prompts->Recognize({.body = decoded_ ? *decoded_ : parser_->get().body(),
                                               .endpoint = kind_.endpoint,
                                               .tenant = tenant,
                                               .fields = fields});
    };
    const Result<void> ran = co_await RunOn(context_.pools.request, std::move(work));
    if (!ran) co_return ran.error();
  }
  known_ = known;
  co_return known;
}

Task<Result<void>> Connection::CheckPrompt(std::string model) {
  const Result<void> admitted = Admit(model);
  if (!admitted) co_return admitted;
  const int64_t most = key_ == nullptr ? 0 : key_->config().prompt_tokens_max;
  if (most > 0) {
    const Result<service::Prompts::Known> known = co_await Recognize();
    if (!known) co_return known.error();
    if (known->num_tokens > most) {
      co_return protocol::form::PromptLimitError(
          DialectOf(kind_.endpoint), {.num_tokens = known->num_tokens, .tokens_max = most});
    }
  }
  co_return Result<void>();
}

Task<bool> Connection::ServeRouted(RouteMatch match, route::Route& route) {
  const Result<void> admitted = co_await CheckPrompt(scan_.model);
  Routing routing{.match = match, .route = route};
  Result<service::Prompts::Known> recognized = service::Prompts::Known();
  if (admitted) recognized = co_await Recognize();
  if (!admitted || !recognized) {
    message::Response response =
        message::ErrorResponse(admitted ? recognized.error() : admitted.error());
    const bool again = co_await Send(std::move(response), match.name, match.openai_dialect);
    co_return again;
  }
  const service::Prompts::Known& known = *recognized;
  routing.query = {.conversation = known.conversation,
                   .prefix = known.prefix,
                   .num_tokens = known.num_tokens,
                   .is_private = Header("x-kvgate-private") == "1",
                   .is_hard = known.thinks_hard || Header("x-kvgate-intent") == "hard",
                   .now = Clock::now()};
  const auto look = [this, now = routing.query.now](const route::Target& target) {
    if (target.is_local()) return route::Affinity::Member{.usable = context_.service.ready()};
    upstream::Upstream& upstream = *targets_->upstreams->Find(target.upstream);
    return route::Affinity::Member{.usable = !upstream.breaker().IsOpen(now),
                                   .num_running = upstream.num_in_use()};
  };
  std::vector<const route::Target*> targets = route.Candidates(routing.query, look);
  if (routing.query.is_private && !context_.service.has_local()) targets.clear();
  if (targets.empty()) {
    message::Response response = message::ErrorResponse(
        {.code = ErrorCode::kPermissionDenied,
         .source = "route",
         .detail = "x-kvgate-private keeps a request on this machine, which has no local engine."});
    const bool again = co_await Send(std::move(response), match.name, match.openai_dialect);
    co_return again;
  }
  co_await WaitForFlight(routing);
  if (cancelled_) co_return false;
  std::optional<bool> again;
  for (size_t i = 0; i < targets.size() && !again; ++i) {
    again = co_await ServeTarget(routing, *targets[i], i + 1 < targets.size());
    if (again) route.Keep(routing.query, *targets[i]);
  }
  co_return again.value_or(false);
}

Task<std::optional<bool>> Connection::ServeTarget(Routing& routing, const route::Target& target,
                                                  bool has_next) {
  RouteMatch match = routing.match;
  left_out_.clear();  // it may hold a previous target's
  if (target.is_local()) {
    LocalTurn turn{.any_model = true, .has_next = has_next};
    const std::optional<bool> again = co_await ServeCompletion(std::move(match), turn);
    co_return again;
  }
  ForwardArgs args{.upstream = targets_->upstreams->Find(target.upstream),
                   .model = target.model,
                   .has_next = has_next,
                   .participant = routing.participant.get()};
  const std::optional<bool> again = co_await ForwardTo(std::move(match), args);
  co_return again;
}

// Waits for the leader, a request with the same prefix that has not been answered yet: the
// provider's cache entry can be read as soon as the leader's answer begins.
Task<void> Connection::WaitForFlight(Routing& routing) {
  const int wait_ms = routing.route.config().single_flight_ms;
  if (wait_ms == 0 || !known_ || known_->num_prefix_tokens < kFlightTokensMin) co_return;
  routing.participant = routing.route.flights().Join(known_->prefix, MakeWake(), Clock::now());
  const Clock::time_point until = Clock::now() + std::chrono::milliseconds(wait_ms);
  while (!routing.participant->leads() && !routing.participant->completed() &&
         Clock::now() < until) {
    std::string probe(message::kContinue);
    const bool there = co_await WaitForProgress(std::move(probe));
    if (!there) break;
  }
}

}  // namespace kvgate::http
