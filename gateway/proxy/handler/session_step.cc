#include "gateway/proxy/handler/session_step.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/clock.h"
#include "gateway/local/prefix_service.h"

namespace kvgate::proxy::handler {

using protocol::form::Dialect;
using session::SessionTurn;

namespace {

using Clock = SteadyClock;

// The dialect of a route whose requests have messages; nullopt for others.
std::optional<Dialect> DialectOf(request::Route route) {
  switch (route) {
    case request::Route::kChatCompletions:
      return Dialect::kChatCompletions;
    case request::Route::kMessages:
    case request::Route::kCountTokens:
      return Dialect::kMessages;
    case request::Route::kResponses:
    case request::Route::kInputTokens:
      return Dialect::kResponses;
    default:
      return std::nullopt;
  }
}

// Counts with the local model; the service answers in JSON.
Result<int64_t> CountLocally(service::Service& service, Dialect dialect, std::string_view body,
                             std::string_view credential) {
  KVGATE_TRY(const std::string answer,
             service.CountTokens({.dialect = dialect, .body = body, .credential = credential}));
  const auto json = nlohmann::json::parse(answer, nullptr, false);
  return json.is_object() ? json.value("input_tokens", int64_t{0}) : int64_t{0};
}

}  // namespace

bool SessionStep::IsWanted(const RequestContext& request) {
  return !request.Header(session::kKeyHeader).empty();
}

Result<std::optional<session::SessionAsk>> SessionStep::Ask() const {
  const session::Sessions* const sessions = request_.environment().options.sessions;
  const int wait_max =
      sessions == nullptr ? session::kWaitSecondsMax : sessions->wait_seconds_max();
  KVGATE_TRY(auto ask, session::ReadAsk({.key = request_.Header(session::kKeyHeader),
                                         .mode = request_.Header(session::kModeHeader),
                                         .wait = request_.Header(session::kWaitHeader)},
                                        wait_max));
  if (ask && sessions == nullptr) return session::log::SessionLog::NotKept();
  if (ask && !DialectOf(request_.place().route)) {
    return MakeError(ErrorCode::kUnsupported, "proxy",
                     "Requests of this path have no messages, so no session can keep them.",
                     std::string(session::kKeyHeader));
  }
  return ask;
}

Task<bool> SessionStep::Begin(AsksLocal asks_local) {
  Result<std::optional<session::SessionAsk>> ask = Ask();
  Result<void> done;
  if (!ask) {
    done = ask.error();
  } else if (*ask) {
    done = co_await Expand(**std::move(ask), std::move(asks_local));
  }
  if (done) co_return true;
  LetGo();
  Error error = done.error();
  co_await request_.Refuse(std::move(error));
  co_return false;
}

Task<Result<void>> SessionStep::Expand(session::SessionAsk ask, AsksLocal asks_local) {
  const Result<void> scanned = co_await request_.Scan();
  if (!scanned) co_return scanned.error();
  if (request_.body().is_encoded() && !request_.body().is_decoded()) {
    co_return MakeError(ErrorCode::kUnsupported, "proxy",
                        "The body cannot be read in its Content-Encoding, so no session can keep "
                        "it.",
                        "content-encoding");
  }
  Result<std::shared_ptr<SessionTurn>> turn = std::shared_ptr<SessionTurn>();
  std::function<void()> read = [&] {
    turn = request_.environment().options.sessions->Read(
        {.tenant = local::TenantOf(request_.caller().credential()),
         .ask = ask,
         .request_id = request_.head().request_id,
         .dialect = *DialectOf(request_.place().route),
         .body = request_.body().text()});
  };
  co_await request_.work().RunSized(request_.body().text().size(), std::move(read));
  if (!turn) co_return turn.error();
  turn_ = *std::move(turn);
  if (!request_.place().counts_tokens()) {
    const Result<void> held = co_await Hold();
    if (!held) co_return held.error();
  }
  const Result<void> loaded = co_await Load();
  if (!loaded) co_return loaded.error();
  const Result<void> composed = co_await Compose(asks_local());
  if (request_.place().counts_tokens()) LetGo();
  co_return composed;
}

Task<Result<void>> SessionStep::Hold() {
  session::Sessions& sessions = *request_.environment().options.sessions;
  request::ResponseSink& sink = request_.sink();
  const Clock::time_point until = Clock::now() + std::chrono::seconds(turn_->ask.wait_seconds);
  request::EndWatcher watcher(sink.signal());
  sink.Watch(&watcher);
  std::string other;
  while (true) {
    const bool may_wait = Clock::now() < until && !sink.is_gone() && !watcher.is_to_end();
    std::function<void()> wake;
    if (may_wait) wake = sink.signal().MakeWake();
    session::log::SessionLocks::Outcome outcome = sessions.TryLock({.tenant = turn_->tenant,
                                                                    .key = turn_->ask.key,
                                                                    .turn = turn_->turn.id,
                                                                    .on_free = std::move(wake)});
    turn_->lock = std::move(outcome.lock);
    other = std::move(outcome.turn);
    if (turn_->lock || !may_wait) break;
    co_await sink.signal().SleepUntil(until);
  }
  sink.Watch(nullptr);
  if (turn_->lock) co_return Result<void>();
  co_return sessions.Refuse(turn_->ask.key, other);
}

// The work may outlive this request on a disk that hangs, so it shares the turn.
Task<Result<void>> SessionStep::Load() {
  auto loaded = std::make_shared<Result<void>>();
  std::function<void()> work = [sessions = request_.environment().options.sessions, turn = turn_,
                                loaded] { *loaded = sessions->Load(*turn); };
  const Result<void> ran =
      co_await request_.work().RunOnDisk(request_.work().pools().store, std::move(work));
  co_return ran ? *loaded : ran;
}

Task<Result<void>> SessionStep::Compose(bool is_local) {
  session::Sessions& sessions = *request_.environment().options.sessions;
  const std::string credential = request_.caller().credential();
  session::Sessions::ComposeArgs args{.body = request_.body().text()};
  if (is_local) {
    const session::LocalModel local = sessions.local_model();
    args.context = local.context_tokens;
    args.output_max = local.output_tokens;
    args.count = [this, &credential](std::string_view body) {
      return CountLocally(request_.environment().service, turn_->request.dialect, body, credential);
    };
  }
  Result<std::string> body = std::string();
  std::function<void()> work = [&] { body = sessions.Compose(*turn_, args); };
  const Result<void> ran =
      co_await request_.work().RunOn(request_.work().pools().request, std::move(work));
  if (!ran) co_return ran.error();
  if (!body) co_return body.error();
  request_.notes().compaction = turn_->compaction;
  const Result<void> replaced = request_.ReplaceBody(*std::move(body));
  co_return replaced;
}

}  // namespace kvgate::proxy::handler
