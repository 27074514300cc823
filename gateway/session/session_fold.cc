#include "gateway/session/session_fold.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "gateway/session/memory/shown.h"
#include "gateway/session/summary/summary_text.h"
#include "gateway/session/transcript/front_text.h"
#include "gateway/session/transcript/spoken.h"

namespace kvgate::session {

using log::History;
using log::LoggedTurn;
using transcript::Message;

namespace {

constexpr std::string_view kSource = "session";

// True if what the plan is about still stands in the branch: only hard drops have come since.
bool Holds(const FoldPlan& plan, std::span<const LoggedTurn> turns, const History& history) {
  const auto at = [&](std::string_view id) {
    return std::find_if(turns.begin(), turns.end(),
                        [&](const LoggedTurn& turn) { return turn.id == id; });
  };
  if (at(plan.event.from_turn) == turns.end()) return false;
  if (history.event == plan.base_event) return true;
  const auto event = at(history.event);
  return event != turns.end() && event >= at(plan.event.from_turn) && event->is_turn() &&
         (plan.base_event.empty() || event > at(plan.base_event));
}

}  // namespace

summary::Call SessionFold::MakeCall() const {
  std::vector<Message> messages = args_.plan.prompt;
  messages.insert(messages.end(), args_.answer.begin(), args_.answer.end());
  return summary::MakeCall(
      {.dialect = args_.dialect,
       .body = args_.body,
       .frame = args_.plan.frame,
       .messages = messages,
       .folded = args_.plan.folded,
       .prompt = args_.prompt,
       .tokens_max = args_.plan.tokens_max,
       .kept_from = args_.plan.tail.empty() ? "" : transcript::TextOf(args_.plan.tail.front()),
       .model = args_.model,
       .only_part = args_.ticket->num_failures % 2 == 1});
}

Result<void> SessionFold::Read(std::string_view answer) {
  KVGATE_TRY(summary_, summary::ReadAnswer(args_.dialect, answer, args_.plan.tokens_max));
  summary_.prompt = args_.prompt.name();
  return {};
}

std::string SessionFold::NextBody() const {
  std::vector<Message> tail = args_.plan.tail;
  tail.insert(tail.end(), args_.answer.begin(), args_.answer.end());
  summary::PutInFront(args_.dialect, summary_.text, tail);
  if (args_.plan.memory && !args_.plan.memory->entries.empty()) {
    transcript::PutTextInFront(args_.dialect, memory::WholeText(args_.plan.memory->entries), tail);
  }
  std::vector<Message> messages = args_.plan.event.kept;
  messages.insert(messages.end(), std::make_move_iterator(tail.begin()),
                  std::make_move_iterator(tail.end()));
  return transcript::WriteBody(args_.dialect, args_.body,
                               {.frame = args_.plan.frame, .messages = messages});
}

Result<void> SessionFold::Store(std::string_view request_id) {
  const Result<void> stored = Append(request_id);
  using Outcome = summary::Folds::Outcome;
  if (stored) args_.ticket->End(Outcome::kStored);
  if (!stored && stored.error().code == ErrorCode::kCancelled) args_.ticket->End(Outcome::kStale);
  return stored;
}

// The newest branch may be another one than that of the response.
Result<void> SessionFold::Append(std::string_view request_id) {
  Result<void> added = AppendTo(args_.key, request_id);
  if (added || args_.turn.empty() || added.error().code != ErrorCode::kCancelled) return added;
  return AppendTo(args_.turn, request_id);
}

Result<void> SessionFold::AppendTo(std::string_view key, std::string_view request_id) {
  const log::SessionLog::Place place{.tenant = args_.tenant, .key = key};
  KVGATE_TRY(const log::SessionLog::Root root, args_.log.Find(place));
  const log::SharedTurns::Seen seen = args_.log.SeenOf(place);
  KVGATE_TRY(const auto head, args_.log.Head(place, root));
  const Error elsewhere = MakeError(ErrorCode::kCancelled, kSource,
                                    "the session has gone on elsewhere since the summary began");
  if (!head) return elsewhere;
  // The whole branch: the plan may begin before what the newest event has left.
  KVGATE_TRY(const std::vector<LoggedTurn> turns,
             args_.log.Load(place, root, head->id, log::SessionLog::Reach::kBranch));
  const History history = log::HistoryOf(turns);
  if (!Holds(args_.plan, turns, history)) return elsewhere;
  LoggedTurn entry{.id = log::TurnIdOf(request_id),
                   .parent = head->id,
                   .model = head->model,
                   .depth = head->depth,
                   .frame = history.frame,
                   .skeleton = history.skeleton,
                   .prompt = history.prompt,
                   .compaction = args_.plan.event};
  entry.compaction->tokens_after += std::min(summary_.tokens.output, args_.plan.tokens_max);
  entry.compaction->summary = summary_;
  entry.compaction->summary->request_id = request_id;
  entry.memory = args_.plan.memory;
  return args_.log.Append(place, root.dialect, entry, seen);
}

}  // namespace kvgate::session
