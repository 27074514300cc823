#include "gateway/proxy/handler/session_step.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/clock.h"
#include "gateway/local/prefix_service.h"
#include "gateway/proxy/handler/idle_fold.h"
#include "gateway/proxy/handler/model_context.h"
#include "gateway/proxy/handler/recall.h"
#include "gateway/session/transcript/spoken.h"

namespace kvgate::proxy::handler {

using dialect::form::Dialect;
using session::SessionTurn;

namespace {

using Clock = SteadyClock;

// The room that an upstream's answer has where its request sets no limit; an eighth of the context
// where that is less.
constexpr int64_t kUpstreamAnswerTokens = 8192;
// The longest that a request waits for an event that is being added to its session.
constexpr std::chrono::seconds kEventTime{30};

constexpr std::string_view kRetryHeader = "x-stainless-retry-count";

// The key that all attempts of one request share; empty: its client sends none.
std::string_view AttemptOf(const RequestContext& request) {
  const std::string_view key = request.Header("idempotency-key");
  return key.empty() ? request.Header("x-idempotency-key") : key;
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

std::optional<Dialect> DialectWithTurns(request::Route route) {
  switch (route) {
    case request::Route::kChatCompletions:
      return Dialect::kChatCompletions;
    case request::Route::kMessages:
    case request::Route::kCountTokens:
      return Dialect::kMessages;
    case request::Route::kResponses:
    case request::Route::kInputTokens:
    case request::Route::kCompact:
      return Dialect::kResponses;
    default:
      return std::nullopt;
  }
}

void CountWithLocalModel(const RequestContext& request, Dialect dialect,
                         session::Sessions::ComposeArgs& args) {
  const session::LocalModel local = request.environment().options.sessions->local_model();
  args.context = local.context_tokens;
  args.output_max = local.output_tokens;
  args.count = [&service = request.environment().service, dialect,
                credential = request.caller().credential()](std::string_view body) {
    return CountLocally(service, dialect, body, credential);
  };
}

void FitUpstreamModel(const RequestContext& request, Dialect dialect, const std::string& model,
                      session::Sessions::ComposeArgs& args) {
  args.context = ContextOf(request, dialect, model);
  args.output_max = std::min(kUpstreamAnswerTokens, args.context / 8);
}

bool SessionStep::IsWanted(const RequestContext& request) {
  return !request.Header(session::kKeyHeader).empty();
}

Result<std::optional<session::SessionAsk>> SessionStep::Ask() const {
  const session::Sessions* const sessions = request_.environment().options.sessions;
  const int wait_max =
      sessions == nullptr ? session::kWaitSecondsMax : sessions->wait_seconds_max();
  KVGATE_TRY(auto ask, session::ReadAsk({.key = request_.Header(session::kKeyHeader),
                                         .mode = request_.Header(session::kModeHeader),
                                         .wait = request_.Header(session::kWaitHeader),
                                         .attempt = AttemptOf(request_),
                                         .retrieval = request_.Header(session::kRetrievalHeader),
                                         .results = request_.Header(session::kResultsHeader),
                                         .retry_count = request_.Header(kRetryHeader)},
                                        wait_max));
  if (ask && sessions == nullptr) return session::log::SessionLog::NotKept();
  if (ask && !DialectWithTurns(request_.place().route)) {
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
         .dialect = *DialectWithTurns(request_.place().route),
         .body = request_.body().text()});
  };
  co_await request_.work().RunSized(request_.body().text().size(), std::move(read));
  if (!turn) co_return turn.error();
  turn_ = *std::move(turn);
  turn_->prompt = request_.notes().prompt;
  is_local_ = asks_local();
  const Result<void> prepared = co_await Prepare(/*may_wait=*/!request_.place().counts_tokens());
  if (!prepared) co_return prepared.error();
  if (request_.place().counts_tokens()) LetGo();
  const Result<void> replaced = request_.ReplaceBody(std::move(composed_));
  co_return replaced;
}

Task<Result<void>> SessionStep::Prepare(bool may_wait) {
  while (true) {
    Result<void> done;
    if (!request_.place().counts_tokens() && !turn_->lock) done = co_await Hold();
    if (done) done = co_await Load();
    if (done) done = co_await Compose();
    if (!done || !may_wait) co_return done;
    const bool has_come = co_await AwaitFold();
    if (!has_come) co_return done;
    may_wait = false;
  }
}

bool SessionStep::NeedsCallersKey(const std::string& model) const {
  return FoldTargetOf(request_, turn_->request.dialect,
                      model.empty() ? turn_->request.model : model)
      .needs_callers_key;
}

std::shared_ptr<FoldRunner> SessionStep::MakeFold(bool is_background) {
  session::Sessions& sessions = *request_.environment().options.sessions;
  const std::string& body = turn_->received.empty() ? request_.body().text() : turn_->received;
  std::unique_ptr<session::SessionFold> fold = sessions.BeginFold(*turn_, body);
  if (fold == nullptr) return nullptr;
  // What is private is told to nobody who has not been told it.
  if (request_.Header("x-kvgate-private") == "1" &&
      !FoldTargetOf(request_, fold->dialect(), fold->model()).is_local) {
    fold->UseOwnModel();
  }
  return std::make_shared<FoldRunner>(request_, FoldRunner::Args{.fold = std::move(fold),
                                                                 .is_background = is_background,
                                                                 .prefills = is_local_});
}

Task<bool> SessionStep::AwaitFold() {
  session::Sessions& sessions = *request_.environment().options.sessions;
  const bool leaves_out = turn_->turn.compaction.has_value();
  const bool needs_key = turn_->fold && NeedsCallersKey(sessions.summary_model());
  if (turn_->fold && needs_key && !sessions.lends_callers_key()) turn_->fold.reset();
  if (turn_->fold && needs_key) {
    const std::shared_ptr<FoldRunner> fold = MakeFold(/*is_background=*/false);
    if (fold == nullptr) co_return false;
    sessions.AdmitEvents(*turn_, true);
    co_await fold->Run();
    sessions.AdmitEvents(*turn_, false);
    co_return true;
  }
  if (!leaves_out) co_return false;
  if (turn_->fold) {
    if (auto fold = MakeFold(/*is_background=*/true)) {
      request_.environment().background->Spawn(std::move(fold), request_.sink().executor());
    }
  }
  request::ResponseSink& sink = request_.sink();
  auto has_ended = std::make_shared<std::atomic<bool>>(false);
  const bool is_running = sessions.folds().Await({.tenant = turn_->tenant, .key = turn_->ask.key},
                                                 [has_ended, wake = sink.signal().MakeWake()] {
                                                   has_ended->store(true);
                                                   wake();
                                                 });
  if (!is_running) co_return false;
  sessions.AdmitEvents(*turn_, true);
  const Clock::time_point until =
      Clock::now() + std::chrono::seconds(sessions.summary_wait_seconds());
  request::Watcher watcher;
  sink.Watch(&watcher);
  while (!has_ended->load() && Clock::now() < until && !sink.is_gone() && !sink.is_to_end()) {
    co_await sink.signal().SleepUntil(until);
  }
  sink.Watch(nullptr);
  sessions.AdmitEvents(*turn_, false);
  co_return true;
}

void SessionStep::AfterAnswer() {
  if (turn_ == nullptr && request_.notes().kept != nullptr) {
    turn_ = request_.notes().kept;
    is_local_ = true;
  }
  if (turn_ == nullptr || !turn_->is_stored.load()) return;
  if (!turn_->is_kept) IdleFold::Begin(request_, *turn_);
  if (!turn_->is_kept) BeginEmbedding(request_, *turn_);
  if (!turn_->fold) return;
  if (NeedsCallersKey(request_.environment().options.sessions->summary_model())) return;
  const std::vector<session::transcript::Message>& answer = turn_->turn.answer;
  // A summary that knows the whole loop of tools is better than one from the midst of it.
  const bool is_open = !answer.empty() && session::transcript::CallsTool(answer.back());
  if (is_open && turn_->fold->has_room) return;
  if (auto fold = MakeFold(/*is_background=*/true)) {
    request_.environment().background->Spawn(std::move(fold), request_.sink().executor());
  }
}

Task<Result<void>> SessionStep::Hold() {
  session::Sessions& sessions = *request_.environment().options.sessions;
  request::ResponseSink& sink = request_.sink();
  const Clock::time_point begun = Clock::now();
  const Clock::time_point until = begun + std::chrono::seconds(turn_->ask.wait_seconds);
  request::Watcher watcher;
  sink.Watch(&watcher);
  std::string other;
  while (true) {
    session::log::SessionLocks::Outcome outcome =
        sessions.TryLock({.tenant = turn_->tenant,
                          .key = turn_->ask.key,
                          .turn = turn_->turn.id,
                          .on_free = sink.signal().MakeWake()});
    turn_->lock = std::move(outcome.lock);
    other = std::move(outcome.turn);
    // An event that is added to the session is nothing that this request would miss.
    const Clock::time_point end = outcome.is_brief ? std::max(until, begun + kEventTime) : until;
    const bool may_wait = Clock::now() < end && !sink.is_gone() && !sink.is_to_end();
    if (turn_->lock || !may_wait) break;
    co_await sink.signal().SleepUntil(end);
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
  if (!ran) co_return ran;
  if (!*loaded) co_return *loaded;
  if (!question_ && !request_.place().counts_tokens()) {
    question_ = co_await AskForQuestion(request_, *turn_);
  }
  if (question_) turn_->remembered.question = *question_;
  co_return Result<void>();
}

Task<Result<void>> SessionStep::Compose() {
  session::Sessions& sessions = *request_.environment().options.sessions;
  session::Sessions::ComposeArgs args{.body = request_.body().text()};
  if (is_local_) {
    CountWithLocalModel(request_, turn_->request.dialect, args);
  } else {
    FitUpstreamModel(request_, turn_->request.dialect, turn_->request.model, args);
  }
  Result<std::string> body = std::string();
  std::function<void()> work = [&] { body = sessions.Compose(*turn_, args); };
  const Result<void> ran =
      co_await request_.work().RunOn(request_.work().pools().request, std::move(work));
  if (!ran) co_return ran.error();
  if (!body) co_return body.error();
  request_.notes().compaction = turn_->compaction;
  if (turn_->prompt) request::NotePrompt(*turn_->prompt, request_.notes());
  composed_ = *std::move(body);
  co_return Result<void>();
}

}  // namespace kvgate::proxy::handler
