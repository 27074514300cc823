#include "gateway/proxy/handler/fold_runner.h"

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/session/session_ask.h"

namespace kvgate::proxy::handler {

using dialect::form::Dialect;

namespace {

// The longest that a summary waits for the session's other writers.
constexpr std::chrono::minutes kHoldTime{10};

}  // namespace

std::string_view PathOf(Dialect dialect) {
  switch (dialect) {
    case Dialect::kMessages:
      return "/v1/messages";
    case Dialect::kResponses:
      return "/v1/responses";
    default:
      return "/v1/chat/completions";
  }
}

FoldTarget FoldTargetOf(const RequestContext& request, Dialect dialect, const std::string& model) {
  const request::Targets& targets = request.targets();
  const service::Service& service = request.environment().service;
  const bool has_own = !request.caller().provider_credential().empty();
  const auto lacks_key = [&](const upstream::Upstream* upstream) {
    return has_own && upstream != nullptr && upstream->api_key().empty();
  };
  const std::string_view named = request.Header("x-kvgate-upstream");
  if (named.empty() && !targets.routes->empty()) {
    if (const route::Route* const route = targets.routes->Find(model); route != nullptr) {
      FoldTarget target;
      const config::RouteConfig& config = route->config();
      for (const auto* list : {&config.targets, &config.fallback}) {
        for (const auto& name : *list) {
          const std::string upstream = name.substr(0, name.find('/'));
          target.needs_callers_key =
              target.needs_callers_key || lacks_key(targets.upstreams->Find(upstream));
        }
      }
      return target;
    }
  }
  const upstream::PathKind kind = upstream::KindOf(PathOf(dialect), false);
  const upstream::Upstreams::Query query{
      .dialect = kind.dialect, .endpoint = kind.endpoint, .name = named, .model = model};
  const bool serves =
      named.empty() && service.has_local() &&
      (service.ServesLocal(model) || model.empty() || !targets.upstreams->Serves(query));
  if (targets.upstreams->empty() || serves) return {.is_local = true};
  const Result<upstream::Upstream*> upstream = targets.upstreams->Choose(query);
  return {.needs_callers_key = upstream && lacks_key(*upstream)};
}

FoldRunner::FoldRunner(const RequestContext& request, Args args)
    : requests_(request, args.is_background),
      environment_(requests_.environment()),
      sessions_(*environment_.options.sessions),
      target_(PathOf(args.fold->dialect())),
      prefills_(args.prefills),
      fold_(std::move(args.fold)),
      sink_(requests_.sink()) {
  // The session is only recognised, as the conversation whose prefix this is.
  requests_.Add(session::kKeyHeader, fold_->key());
  requests_.Add(session::kModeHeader, "recognise");
  requests_.Add("x-kvgate-explain", "1");
}

void FoldRunner::Cancel() { sink_.Cancel(); }

Task<void> FoldRunner::Run() {
  result_ = co_await Make();
  if (result_) co_return;
  KVGATE_LOG(kWarning, "proxy", "session '{}' is not summarised: {}", fold_->key(),
             result_.error().detail);
}

Task<Result<void>> FoldRunner::Make() {
  const Result<std::string> request_id = co_await Ask();
  if (!request_id) co_return request_id.error();
  if (prefills_) co_await Prefill();
  const Result<void> stored = co_await Store(*request_id);
  co_return stored;
}

Task<Result<std::string>> FoldRunner::Ask() {
  const std::unique_ptr<RequestContext> context = requests_.Open(target_, kSummaryPurpose);
  session::summary::Call call;
  std::function<void()> make = [&] { call = fold_->MakeCall(); };
  Result<void> done = co_await context->work().RunOn(environment_.pools.request, std::move(make));
  if (done) done = context->ReplaceBody(std::move(call.body));
  if (!done) co_return done.error();
  co_await Generation().Serve(*context);
  if (sink_.is_gone()) {
    co_return MakeError(ErrorCode::kUnavailable, "proxy", "the server ends");
  }
  if (sink_.status != 200) {
    co_return MakeError(ErrorCode::kUnavailable, "proxy",
                        fmt::format("request {} was answered with status {}",
                                    context->head().request_id, sink_.status));
  }
  done = fold_->Read(sink_.body);
  if (!done) co_return done.error();
  co_return context->head().request_id;
}

Task<Result<std::shared_ptr<void>>> FoldRunner::Hold(std::string turn) {
  const SteadyClock::time_point until = SteadyClock::now() + kHoldTime;
  while (!sink_.is_gone() && SteadyClock::now() < until) {
    session::log::SessionLocks::Outcome outcome =
        sessions_.TryLock({.tenant = fold_->tenant(),
                           .key = fold_->key(),
                           .turn = turn,
                           .on_free = sink_.signal().MakeWake(),
                           .is_brief = true});
    if (outcome.lock) co_return std::move(outcome.lock);
    co_await sink_.signal().SleepUntil(until);
  }
  co_return MakeError(ErrorCode::kUnavailable, "proxy", "the session was not free in time");
}

// A failure costs the next turn some time and changes nothing.
Task<void> FoldRunner::Prefill() {
  const Dialect dialect = fold_->dialect();
  const bool is_chat = dialect == Dialect::kChatCompletions;
  const bool is_messages = dialect == Dialect::kMessages;
  const std::unique_ptr<RequestContext> context = requests_.Open(
      is_chat ? std::string_view("/kvgate/v1/prefixes/warm") : target_, kSummaryPurpose);
  std::vector<session::transcript::Member> members = {{.name = "stream", .value = "false"},
                                                      {.name = "stream_options"},
                                                      {.name = is_messages ? "max_tokens"
                                                               : is_chat   ? "max_completion_tokens"
                                                                           : "max_output_tokens",
                                                       .value = is_messages ? "0" : "1"}};
  if (dialect == Dialect::kResponses) members.push_back({.name = "store", .value = "false"});
  const Result<void> replaced =
      context->ReplaceBody(session::transcript::WithMembers(fold_->NextBody(), members));
  if (!replaced) co_return;
  co_await (is_chat ? WarmPrefix() : Generation()).Serve(*context);
  if (sink_.status != 200) {
    KVGATE_LOG(kDebug, "proxy", "session '{}': its new prefix is not computed ahead: status {}",
               fold_->key(), sink_.status);
  }
}

// The disk may answer when this has given up, so the work shares the fold, and holds the session.
Task<Result<void>> FoldRunner::Store(std::string request_id) {
  Result<std::shared_ptr<void>> lock = co_await Hold(session::log::TurnIdOf(request_id));
  if (!lock) co_return lock.error();
  const std::unique_ptr<RequestContext> context = requests_.Open(target_, kSummaryPurpose);
  auto stored = std::make_shared<Result<void>>();
  std::function<void()> work = [fold = fold_, lock = *std::move(lock), stored,
                                request_id]() mutable {
    *stored = fold->Store(request_id);
    lock.reset();
  };
  const Result<void> ran =
      co_await context->work().RunOnDisk(environment_.pools.store, std::move(work));
  co_return ran ? *stored : ran;
}

}  // namespace kvgate::proxy::handler
