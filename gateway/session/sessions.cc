#include "gateway/session/sessions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gateway/dialect/form/json_writer.h"

namespace kvgate::session {

namespace {

constexpr std::string_view kSource = "session";

// A quarter of the space for a turn is left for its answer, so that what cannot be stored is
// refused before it is answered.
Result<void> CheckSize(const log::LoggedTurn& turn, uint64_t bytes_max) {
  uint64_t bytes = 0;
  for (const transcript::Message& message : turn.input) bytes += message.json.size() + 1;
  for (const log::KeptResult& result : turn.results) bytes += result.text.size();
  if (turn.frame) bytes += turn.frame->system.size() + turn.frame->tools.size();
  const uint64_t limit = bytes_max - bytes_max / 4;
  if (bytes <= limit) return {};
  return MakeError(ErrorCode::kTooLarge, kSource,
                   fmt::format("A turn of {} bytes is too large to be kept in a session, the limit "
                               "is {}.",
                               bytes, limit),
                   std::string(kKeyHeader));
}

// The newest turn, if the request is another attempt of the one that made it: its answer did not
// reach the client, which therefore says the same again. Null if it is not.
const log::LoggedTurn* RepeatedBy(const SessionTurn& turn) {
  const auto newest = std::find_if(turn.stored.rbegin(), turn.stored.rend(),
                                   [](const log::LoggedTurn& one) { return one.is_turn(); });
  if (newest == turn.stored.rend()) return nullptr;
  if (newest->input != turn.request.messages) return nullptr;
  const std::string& attempt = turn.ask.attempt;
  const bool has_keys = !attempt.empty() && !newest->attempt.empty();
  const bool is_same = has_keys ? attempt == newest->attempt : turn.ask.is_retry;
  return is_same ? &*newest : nullptr;
}

// The body of a request that would go on in a session. Its skeleton is not known of turns of
// earlier versions.
std::string BodyOf(Dialect dialect, const std::string& model, const std::string& skeleton) {
  std::string name;
  dialect::form::JsonWriter(name).String(model);
  const bool is_responses = dialect == Dialect::kResponses;
  const std::vector<transcript::Member> members = {
      {.name = "model", .value = model.empty() ? std::string() : name},
      {.name = "stream", .value = "false"},
      {.name = "stream_options"}};
  if (!skeleton.empty()) return transcript::WithMembers(skeleton, members);
  return transcript::WithMembers(
      fmt::format(R"({{{}"{}":[{{"role":"user","content":"."}}]}})",
                  dialect == Dialect::kMessages ? R"("max_tokens":1,)" : "",
                  is_responses ? "input" : "messages"),
      members);
}

// Whether the turn's results get stubs, and its model a tool to read them.
void TakeResults(const results::Settings& settings, SessionTurn& turn) {
  const bool has_tool = results::TakeResults({.settings = settings,
                                              .stubs = turn.ask.stubs,
                                              .stored = turn.stored,
                                              .request = turn.request,
                                              .kept = turn.turn.results});
  turn.read_bytes = has_tool ? settings.bytes_max : 0;
}

Result<void> LoadTurns(const log::SessionLog& log, const results::Settings& settings,
                       SessionTurn& turn) {
  const Result<log::SessionLog::Root> root = log.Find(turn.place());
  turn.seen = log.SeenOf(turn.place());
  if (!root && root.error().code == ErrorCode::kNotFound) {
    TakeResults(settings, turn);
    return {};
  }
  if (!root) return root.error();
  if (root->dialect != turn.request.dialect) {
    return MakeError(
        ErrorCode::kInvalidArgument, kSource,
        fmt::format("Session '{}' began in the dialect '{}', and this request is in "
                    "'{}': a session keeps its dialect.",
                    turn.ask.key, log::NameOf(root->dialect), log::NameOf(turn.request.dialect)),
        std::string(kKeyHeader));
  }
  KVGATE_TRY(const auto head, log.Head(turn.place(), *root));
  if (!head) {
    TakeResults(settings, turn);
    return {};
  }
  using Reach = log::SessionLog::Reach;
  const bool may_branch =
      turn.ask.mode == SessionAsk::Mode::kTranscript ||
      (turn.ask.mode == SessionAsk::Mode::kAuto && turn.request.is_transcript());
  KVGATE_TRY(turn.stored,
             log.Load(turn.place(), *root, head->id, may_branch ? Reach::kBranch : Reach::kPrompt));
  TakeResults(settings, turn);
  if (may_branch) return {};
  const log::LoggedTurn* const repeated = RepeatedBy(turn);
  if (repeated == nullptr) return {};
  const std::string before = repeated->parent;
  turn.stored.clear();
  if (before.empty()) return {};
  KVGATE_TRY(turn.stored, log.Load(turn.place(), *root, before, Reach::kPrompt));
  return {};
}

// FitWindow for a turn that says what is remembered.
Result<std::string> FitRemembering(Sessions& sessions, SessionTurn& turn, Composed composed,
                                   const Sessions::ComposeArgs& args) {
  Sessions::ComposeArgs fitted = args;
  const memory::Entries said = composed.memory;
  const std::vector<log::History::Note> notes = composed.notes;
  const auto fit = [&](Addition addition) {
    composed.memory = said;
    composed.notes = notes;
    Add(addition, composed);
    turn.turn.memory = std::move(addition.memory);
    turn.turn.recalled = std::move(addition.recalled);
    return sessions.FitWindow(turn, composed, fitted);
  };
  const auto addition_of = [&](const log::Compaction* event) {
    return sessions.memory().AdditionOf({.remembered = turn.remembered,
                                         .composed = composed,
                                         .stored = turn.stored,
                                         .event = event});
  };
  Addition addition = addition_of(nullptr);
  Result<std::string> body = fit(addition);
  if (body && turn.turn.compaction) {
    const log::Compaction event = *turn.turn.compaction;
    addition = addition_of(&event);
    // It may be shorter than what had to be made shorter.
    fitted.drops = true;
    body = fit(addition);
  }
  if (body || !addition.recalled) return body;
  // What was said before never keeps what is said now from being answered.
  addition.recalled.reset();
  return fit(addition);
}

// The named prompt of a turn. What its request does not name goes on as long as the text in which
// it stands does; of stored responses, whose instructions are each request's own, until one names
// another.
log::TurnPrompt PromptOf(const SessionTurn& turn, const Composed& composed) {
  if (turn.prompt) return *turn.prompt;
  const log::History& history = composed.history;
  const bool goes_on = turn.is_kept || (composed.frame.system == history.frame.system &&
                                        composed.frame.head == history.frame.head);
  return goes_on ? history.prompt : log::TurnPrompt();
}

summary::Folds::Session SessionOf(const SessionTurn& turn) {
  return {.tenant = turn.tenant, .key = turn.ask.key};
}

}  // namespace

Error Sessions::Refuse(std::string_view key, std::string_view turn) {
  num_conflicts_.fetch_add(1, std::memory_order_relaxed);
  const std::string why =
      turn.empty()
          ? fmt::format(
                "Session '{}' has gone on at another gateway since this request began, so "
                "that nothing of it is kept. Look at what it says and send this one again.",
                key)
          : fmt::format(
                "Session '{}' is taken by another request, whose turn will be '{}'. Look "
                "at what it says and send this one again, or let it wait "
                "(x-kvgate-session-wait).",
                key, turn);
  Error error = MakeError(ErrorCode::kUnavailable, dialect::form::kSessionSource, why,
                          std::string(kKeyHeader));
  error.retryable = true;
  return error;
}

Result<std::shared_ptr<SessionTurn>> Sessions::Read(ReadArgs args) const {
  if (!keeps()) return log::SessionLog::NotKept();
  auto turn = std::make_shared<SessionTurn>();
  turn->tenant = std::move(args.tenant);
  turn->ask = std::move(args.ask);
  turn->turn.id = log::TurnIdOf(args.request_id);
  turn->turn.attempt = turn->ask.attempt;
  KVGATE_TRY(turn->request, transcript::ReadBody(args.dialect, args.body));
  return turn;
}

Result<void> Sessions::Load(SessionTurn& turn) {
  KVGATE_TRY_VOID(LoadTurns(log_, options_.results, turn));
  const auto branch = [&]() -> Result<std::vector<log::LoggedTurn>> {
    KVGATE_TRY(const log::SessionLog::Root root, log_.Find(turn.place()));
    return log_.Load(turn.place(), root, turn.stored.back().id, log::SessionLog::Reach::kThere);
  };
  KVGATE_TRY(turn.remembered, memory_.Load({.place = turn.place(),
                                            .stored = turn.stored,
                                            .load_branch = branch,
                                            .retrieves = turn.ask.retrieves}));
  return {};
}

Result<std::string> Sessions::Compose(SessionTurn& turn, const ComposeArgs& args) {
  KVGATE_TRY(Composed composed, ComposeTurns(turn.ask.mode, turn.request, turn.stored));
  composed.memory_now = turn.remembered.memory;
  ComposeArgs said = args;
  std::string with_stubs;
  if (turn.read_bytes > 0) {
    with_stubs = results::BodyOf(turn.request, args.body);
    said.body = with_stubs;
  }
  Result<std::string> body = args.is_forced
                                 ? FitWindow(turn, composed, said)
                                 : FitRemembering(*this, turn, std::move(composed), said);
  if (turn.fold) {
    turn.received = turn.read_bytes > 0 ? std::move(with_stubs) : std::string(args.body);
  }
  if (body) {
    turn.unembedded = memory_.UnembeddedOf(
        {.remembered = turn.remembered, .stored = turn.stored, .turn = turn.turn});
  }
  memory_.Release(turn.place(), std::move(turn.remembered));
  turn.remembered = {};
  if (!body) return body.error();
  KVGATE_TRY_VOID(CheckSize(turn.turn, options_.turns->turn_bytes_max()));
  turn.stored.clear();
  return body;
}

Result<std::string> Sessions::FitWindow(SessionTurn& turn, const Composed& composed,
                                        const ComposeArgs& args) const {
  window::Settings settings = options_.window;
  if (args.keeps_all) settings.mode = window::Mode::kOff;
  const bool may_fold = args.is_forced || folds_.IsDue(SessionOf(turn), composed.history.depth);
  KVGATE_TRY(Windowed windowed, ApplyWindow(turn.request, args.body, composed,
                                            {.settings = settings,
                                             .may_fold = may_fold,
                                             .is_forced = args.is_forced,
                                             .drops = args.drops,
                                             .context = args.context,
                                             .output_max = args.output_max,
                                             .count = args.count}));
  turn.compaction = std::move(windowed.compaction);
  turn.fold = std::move(windowed.fold);
  turn.turn.parent = composed.history.head;
  turn.turn.depth = composed.history.depth + 1;
  turn.turn.model = turn.request.model;
  turn.turn.prompt_bytes = windowed.body.size();
  turn.turn.frame.reset();
  // An event says the frame again, because the turns before it are not read any more.
  const bool is_same_frame =
      !composed.history.head.empty() && composed.frame == composed.history.frame;
  if (!is_same_frame || windowed.event) turn.turn.frame = composed.frame;
  std::string skeleton = transcript::SkeletonOf(turn.request.dialect, args.body);
  turn.turn.skeleton.reset();
  if (skeleton != composed.history.skeleton || windowed.event) {
    turn.turn.skeleton = std::move(skeleton);
  }
  turn.prompt = PromptOf(turn, composed);
  turn.turn.prompt.reset();
  if (turn.prompt != composed.history.prompt || windowed.event) turn.turn.prompt = turn.prompt;
  turn.turn.input = composed.input;
  turn.turn.compaction = std::move(windowed.event);
  return std::move(windowed.body);
}

Result<void> Sessions::Commit(SessionTurn& turn, answer::RecordedAnswer answer,
                              BlockHash kv_block) {
  turn.turn.kv_block = kv_block;
  if (turn.said) answer = *std::move(turn.said);
  turn.turn.answer = std::move(answer.messages);
  turn.turn.tokens = answer.tokens;
  const Result<void> added = log_.Append(turn.place(), turn.request.dialect, turn.turn, turn.seen);
  if (!added && added.error().code == ErrorCode::kCancelled) return Refuse(turn.ask.key, {});
  if (!added) return added;
  turn.is_stored.store(true);
  num_turns_.fetch_add(1, std::memory_order_relaxed);
  memory_.NoteTurn(turn.unembedded, turn.turn);
  if (turn.turn.compaction) num_compactions_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

Result<Sessions::Stored> Sessions::ReadStored(std::string_view tenant, std::string_view key) {
  Stored stored{.turn = std::make_shared<SessionTurn>(), .body = {}};
  stored.turn->tenant = tenant;
  stored.turn->ask = {.key = std::string(key), .mode = SessionAsk::Mode::kAppend};
  KVGATE_TRY(const log::SessionLog::Root root, log_.Find(stored.turn->place()));
  KVGATE_TRY(const auto head, log_.Head(stored.turn->place(), root));
  if (!head) return MakeError(ErrorCode::kInvalidArgument, kSource, "The session has no turns.");
  KVGATE_TRY(stored.turn->stored,
             log_.Load(stored.turn->place(), root, head->id, log::SessionLog::Reach::kPrompt));
  std::string model;  // the last one that is known
  for (const log::LoggedTurn& turn : stored.turn->stored) {
    if (!turn.model.empty()) model = turn.model;
  }
  stored.body = BodyOf(root.dialect, model, log::HistoryOf(stored.turn->stored).skeleton);
  KVGATE_TRY(stored.turn->request, transcript::ReadBody(root.dialect, stored.body));
  KVGATE_TRY(stored.turn->remembered, memory_.Load({.place = stored.turn->place(),
                                                    .stored = stored.turn->stored,
                                                    .retrieves = false}));
  return stored;
}

std::unique_ptr<SessionFold> Sessions::BeginFold(const SessionTurn& turn, std::string_view body,
                                                 summary::Folds::Trigger trigger) {
  if (!turn.fold) return nullptr;
  const uint64_t depth = turn.is_stored ? turn.turn.depth : turn.turn.depth - 1;
  auto ticket = folds_.Begin(SessionOf(turn), depth, trigger);
  if (ticket == nullptr) return nullptr;
  FoldPlan plan = *turn.fold;
  if (!turn.is_stored) {
    plan.prompt.resize(plan.prompt.size() - plan.num_input);
    plan.tail.resize(plan.tail.size() - plan.num_input);
  }
  return std::make_unique<SessionFold>(SessionFold::Args{
      .log = log_,
      .prompt = options_.prompt,
      .ticket = std::move(ticket),
      .tenant = turn.tenant,
      .key = turn.ask.key,
      .turn = turn.is_kept ? turn.turn.id : std::string(),
      .dialect = turn.request.dialect,
      .body = std::string(body),
      .model = options_.summary_model,
      .plan = std::move(plan),
      .answer = turn.is_stored ? turn.turn.answer : std::vector<transcript::Message>()});
}

SessionCounts Sessions::counts() const {
  return {.num_turns = num_turns_.load(),
          .num_compactions = num_compactions_.load(),
          .num_conflicts = num_conflicts_.load()};
}

void Sessions::Collect(metrics::TextWriter& writer) const {
  const SessionCounts now = counts();
  const auto write = [&](std::string_view name, std::string_view help, uint64_t value) {
    writer.Family(name, "counter", help);
    writer.Sample(name, {}, value);
  };
  write("kvgate_session_turns_total", "Turns of sessions that were stored.", now.num_turns);
  write("kvgate_session_compactions_total", "Turns for which older rounds were left out.",
        now.num_compactions);
  write("kvgate_session_conflicts_total", "Requests refused because another held their session.",
        now.num_conflicts);
  const summary::Folds::Counts folds = folds_.counts();
  constexpr std::string_view kFolds = "kvgate_session_folds_total";
  writer.Family(kFolds, "counter", "Summaries of sessions that were asked for, by their outcome.");
  writer.Sample(kFolds, {{"outcome", "stored"}}, folds.num_stored);
  writer.Sample(kFolds, {{"outcome", "failed"}}, folds.num_failed);
  writer.Sample(kFolds, {{"outcome", "stale"}}, folds.num_stale);
  constexpr std::string_view kCompactions = "kvgate_compaction_total";
  writer.Family(kCompactions, "counter",
                "Compactions of sessions: summaries by what made them begin, and rounds left out "
                "because the window was full (hard).");
  const auto by = [&](std::string trigger, uint64_t value) {
    writer.Sample(kCompactions, {{"trigger", std::move(trigger)}}, value);
  };
  using Trigger = summary::Folds::Trigger;
  by("threshold", folds.num_stored_by[static_cast<size_t>(Trigger::kThreshold)]);
  by("idle", folds.num_stored_by[static_cast<size_t>(Trigger::kIdle)]);
  by("client", folds.num_stored_by[static_cast<size_t>(Trigger::kClient)]);
  by("hard", now.num_compactions);
  constexpr std::string_view kRunning = "kvgate_session_folds_running";
  writer.Family(kRunning, "gauge", "Summaries of sessions that are being made.");
  writer.Sample(kRunning, {}, static_cast<uint64_t>(folds.num_running));
  memory_.Collect(writer);
}

}  // namespace kvgate::session
