#include "gateway/session/compose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "gateway/dialect/form/errors.h"
#include "gateway/session/memory/shown.h"
#include "gateway/session/summary/summary_text.h"
#include "gateway/session/transcript/front_text.h"

namespace kvgate::session {

using transcript::Frame;
using transcript::Kind;
using transcript::Message;
using transcript::RequestBody;

namespace {

constexpr std::string_view kSource = "session";
// Tokens of a byte where no provider has said yet how many a prompt of this session has, and the
// margins of both estimates: JSON is written in 3 to 5 bytes a token.
constexpr double kTokensOfByte = 0.3;
constexpr double kFirstMargin = 1.25;
constexpr double kMargin = 1.1;
// Tokens of a summary that somebody asks for; fewer say nothing.
constexpr int64_t kAskedSummaryTokensMin = 32;

Error Differs(std::string_view what) {
  return MakeError(ErrorCode::kUnavailable, dialect::form::kSessionSource,
                   fmt::format("The session has another {}: this is the first message of something "
                               "else. Name another session, or send x-kvgate-session-mode: append "
                               "to go on in this one.",
                               what),
                   std::string(kKeyHeader));
}

bool IsSameHead(const std::vector<Message>& a, const std::vector<Message>& b) {
  return a.size() == b.size() && transcript::CommonMessages(a, b) == a.size();
}

// New turns go on under the frame that the session has, where they bring none of their own.
Result<Frame> FrameOf(SessionAsk::Mode mode, const Frame& asked, const Frame& stored) {
  const bool may_differ = mode == SessionAsk::Mode::kAppend;
  Frame frame = stored;
  if (!asked.tools.empty()) frame.tools = asked.tools;
  if (!asked.system.empty() && !transcript::IsSameText(asked.system, stored.system)) {
    if (!may_differ) return Differs("system text");
    frame.system = asked.system;
  }
  if (!asked.head.empty() && !IsSameHead(asked.head, stored.head)) {
    if (!may_differ) return Differs("system message");
    frame.head = asked.head;
  }
  return frame;
}

// What was put into earlier prompts stays where it stood.
void TakeAdditions(Composed& composed) {
  composed.memory = composed.history.memory;
  composed.notes = composed.history.notes;
}

Result<Composed> ComposeAppended(SessionAsk::Mode mode, const RequestBody& request,
                                 std::span<const log::LoggedTurn> stored) {
  Composed composed;
  composed.history = log::HistoryOf(stored);
  KVGATE_TRY(composed.frame, FrameOf(mode, request.frame, composed.history.frame));
  composed.kept = composed.history.kept;
  composed.old = composed.history.messages;
  composed.input = request.messages;
  TakeAdditions(composed);
  return composed;
}

// The caller's own messages stand for those that the session has: what it sends goes out as it is
// written, but for what was left out before.
Composed ComposeTranscript(const RequestBody& request, std::span<const log::LoggedTurn> stored) {
  Composed composed;
  const log::Transcript known = log::TranscriptOf(stored);
  const size_t common = transcript::CommonMessages(request.messages, known.messages);
  size_t num_turns = 0;
  while (num_turns < stored.size() && known.ends[num_turns] <= common &&
         known.ends[num_turns] < request.messages.size()) {
    ++num_turns;
  }
  composed.frame = request.frame;
  const size_t end = num_turns == 0 ? 0 : known.ends[num_turns - 1];
  composed.history = log::HistoryOf(stored.first(num_turns));
  composed.kept = composed.history.kept;
  // As many as the history has, which is all of them but those that were left out.
  const auto begin = request.messages.begin();
  const auto num_old = static_cast<std::ptrdiff_t>(composed.history.messages.size());
  const auto old_end = begin + static_cast<std::ptrdiff_t>(end);
  composed.old.assign(old_end - num_old, old_end);
  composed.input.assign(begin + static_cast<std::ptrdiff_t>(end), request.messages.end());
  TakeAdditions(composed);
  return composed;
}

size_t BytesOf(std::span<const Message> messages) {
  size_t bytes = 0;
  for (const Message& message : messages) bytes += message.json.size() + 1;
  return bytes;
}

// One prompt under the window: its rounds, and its tokens without some of them.
class Fitting {
 public:
  Fitting(const RequestBody& request, std::string_view body, const Composed& composed,
          const WindowArgs& args)
      : request_(request), body_(body), composed_(composed), args_(args) {
    all_ = Said(/*says_changes=*/true);
    rounds_ = transcript::RoundsOf(all_);
    const size_t kept = composed.history.is_compacted()
                            ? 0
                            : static_cast<size_t>(std::max(0, args.settings.keep_first_turns));
    num_pinned_ = std::min(kept, rounds_.size());
    const log::History& history = composed.history;
    if (history.prompt_tokens > 0) {
      tokens_of_byte_ =
          static_cast<double>(history.prompt_tokens) / static_cast<double>(history.prompt_bytes);
      margin_ = kMargin;
    }
    const bool is_as_received = composed.kept.empty() && !composed.history.summary &&
                                composed.memory.empty() && composed.notes.empty() &&
                                composed.frame == request.frame &&
                                all_.size() == request.messages.size();
    whole_ = is_as_received ? std::string(body) : Body(0);
  }

  // Rounds that may be left out: the newest one and the pinned ones stay.
  size_t num_rounds_max() const {
    return rounds_.size() <= num_pinned_ + 1 ? 0 : rounds_.size() - num_pinned_ - 1;
  }
  // What is left out begins behind the pinned rounds, and ends here.
  size_t EndOf(size_t num_left_out) const {
    return num_left_out == 0 ? 0 : rounds_[num_pinned_ + num_left_out];
  }
  // What stays of the messages up to the end of those that are left out.
  std::vector<Message> KeptOf(size_t num_left_out) const {
    std::vector<Message> kept = composed_.kept;
    const size_t end = EndOf(num_left_out);
    const size_t pinned = end == 0 ? 0 : rounds_[num_pinned_];
    for (size_t i = 0; i < end; ++i) {
      const bool is_system = all_[i].kind == Kind::kSystem && args_.settings.keep_system;
      if (i < pinned || is_system) kept.push_back(all_[i]);
    }
    return kept;
  }
  // The prompt's messages without those rounds.
  std::vector<Message> Messages(size_t num_left_out) const {
    std::vector<Message> messages = KeptOf(num_left_out);
    std::vector<Message> rest(all_.begin() + static_cast<std::ptrdiff_t>(EndOf(num_left_out)),
                              all_.end());
    PutSummary(rest);
    PutMemory(rest);
    messages.insert(messages.end(), std::make_move_iterator(rest.begin()),
                    std::make_move_iterator(rest.end()));
    return messages;
  }
  std::string Body(size_t num_left_out) const {
    const std::vector<Message> messages = Messages(num_left_out);
    return transcript::WriteBody(request_.dialect, body_,
                                 {.frame = composed_.frame, .messages = messages});
  }

  int64_t Estimate(size_t num_left_out) const {
    const size_t gone = BytesOf(std::span(all_).first(EndOf(num_left_out)));
    const size_t stays =
        num_left_out == 0 ? 0 : BytesOf(KeptOf(num_left_out)) - BytesOf(composed_.kept);
    return TokensOf(whole_.size() - std::min(whole_.size(), gone) + stays);
  }
  // A prompt that is far below the limit need not be counted exactly.
  Result<int64_t> Tokens(size_t num_left_out, const window::Thresholds& limits) const {
    const int64_t estimate = Estimate(num_left_out);
    if (!args_.count) return estimate;
    const bool is_measured = composed_.history.prompt_tokens > 0;
    const int64_t most = is_measured ? estimate : static_cast<int64_t>(whole_.size());
    if (num_left_out == 0 && most < limits.high / 2) return estimate;
    return args_.count(num_left_out == 0 ? whole_ : Body(num_left_out));
  }
  std::string TakeBody(size_t num_left_out) {
    return num_left_out == 0 ? std::move(whole_) : Body(num_left_out);
  }

  window::Measures MeasuresOf() const {
    const auto rounds = static_cast<int64_t>(std::max<size_t>(1, rounds_.size()));
    const size_t all = BytesOf(all_);
    const size_t last_two =
        rounds_.size() < 2 ? all : BytesOf(std::span(all_).subspan(rounds_[rounds_.size() - 2]));
    const int64_t limit = request_.output_tokens > 0 ? request_.output_tokens : args_.output_max;
    // An answer may be limited to more than there is room for.
    const int64_t output = args_.context > 0 ? std::min(limit, args_.context / 2) : 0;
    return {.context = args_.context,
            .output = output,
            .growth = TokensOf(all) / rounds,
            .least = TokensOf(whole_.size() - std::min(whole_.size(), all) + last_two)};
  }

  // The place in the log at which the prompt begins without those rounds.
  log::Compaction EventOf(const window::Fit& fit) const {
    const size_t end = EndOf(fit.num_left_out);
    log::Compaction event{.from_turn = {},
                          .from_message = end - std::min(end, composed_.old.size()),
                          .kept = KeptOf(fit.num_left_out),
                          .num_messages = composed_.history.num_left_out + end,
                          .tokens_before = fit.before,
                          .tokens_after = fit.after,
                          .summary = composed_.history.summary};
    if (end < composed_.old.size()) {
      log::History::Place place = composed_.history.PlaceOf(end);
      event.from_turn = std::move(place.turn);
      event.from_message = place.message;
    }
    return event;
  }

  // REQUIRES: fit.num_left_out > 0, and those rounds end before the input.
  FoldPlan PlanOf(const window::Fit& fit, const window::Thresholds& limits) const {
    FoldPlan plan{.event = EventOf(fit),
                  .base_event = composed_.history.event,
                  .frame = composed_.frame,
                  .prompt = Messages(0),
                  .num_input = composed_.input.size(),
                  .tokens_max = limits.summary,
                  .has_room = fit.before <= limits.high + (limits.hard - limits.high) / 2};
    const size_t end = EndOf(fit.num_left_out);
    log::History::Place place = composed_.history.PlaceOf(end);
    plan.event.from_turn = std::move(place.turn);
    plan.event.from_message = place.message;
    plan.event.is_fold = true;
    plan.event.summary.reset();
    plan.memory = memory::NextOf({.shown = composed_.history.memory_shown,
                                  .now = composed_.memory_now,
                                  .begins_anew = true});
    plan.folded.assign(all_.begin() + static_cast<std::ptrdiff_t>(rounds_[num_pinned_]),
                       all_.begin() + static_cast<std::ptrdiff_t>(end));
    PutSummary(plan.folded);
    // The event says the whole of memory, so that its changes are not said any more.
    const std::vector<Message> said = Said(/*says_changes=*/!plan.memory);
    plan.tail.assign(said.begin() + static_cast<std::ptrdiff_t>(end), said.end());
    return plan;
  }
  // Rounds that are over: a summary cannot stand for what is being answered.
  size_t num_rounds_over() const {
    size_t num = num_rounds_max();
    while (num > 0 && EndOf(num) > composed_.old.size()) --num;
    return num;
  }

 private:
  void PutSummary(std::vector<Message>& messages) const {
    if (!composed_.history.summary) return;
    summary::PutInFront(request_.dialect, composed_.history.summary->text, messages);
  }
  // The old messages and the input, with what stands in front of them.
  std::vector<Message> Said(bool says_changes) const {
    std::vector<Message> said = composed_.old;
    said.insert(said.end(), composed_.input.begin(), composed_.input.end());
    for (log::History::Note note : composed_.notes) {
      if (!says_changes) note.changes.clear();
      const std::string text = note.text();
      if (!text.empty()) transcript::PutTextInFront(request_.dialect, text, said[note.message]);
    }
    return said;
  }
  void PutMemory(std::vector<Message>& messages) const {
    if (composed_.memory.empty()) return;
    transcript::PutTextInFront(request_.dialect, memory::WholeText(composed_.memory), messages);
  }
  int64_t TokensOf(size_t bytes) const {
    return static_cast<int64_t>(std::ceil(static_cast<double>(bytes) * tokens_of_byte_ * margin_));
  }

  const RequestBody& request_;
  const std::string_view body_;
  const Composed& composed_;
  const WindowArgs& args_;
  std::vector<Message> all_;    // old and input
  std::vector<size_t> rounds_;  // where they begin in all_
  size_t num_pinned_ = 0;
  std::string whole_;  // the body with all rounds
  double tokens_of_byte_ = kTokensOfByte;
  double margin_ = kFirstMargin;
};

}  // namespace

void Add(const Addition& addition, Composed& composed) {
  if (addition.memory && addition.memory->is_whole) {
    composed.memory = addition.memory->entries;
    for (log::History::Note& note : composed.notes) note.changes.clear();
  }
  const std::optional<size_t> words = transcript::NewestWords(composed.input);
  if (!words) return;
  log::History::Note note =
      log::NoteOf(addition.memory, addition.recalled, composed.old.size() + *words);
  if (!note.text().empty()) composed.notes.push_back(std::move(note));
}

Result<Composed> ComposeTurns(SessionAsk::Mode mode, const RequestBody& request,
                              std::span<const log::LoggedTurn> stored) {
  if (request.messages.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, kSource,
                     "A turn of a session has at least one message that is not the system's.",
                     request.dialect == transcript::Dialect::kResponses ? "input" : "messages");
  }
  if (stored.empty()) {
    Composed composed;
    composed.frame = request.frame;
    composed.input = request.messages;
    return composed;
  }
  const bool is_transcript = mode == SessionAsk::Mode::kTranscript ||
                             (mode == SessionAsk::Mode::kAuto && request.is_transcript());
  if (is_transcript) return ComposeTranscript(request, stored);
  return ComposeAppended(mode, request, stored);
}

namespace {

// The fold that is due; nullopt if none is, or none would make the prompt shorter.
Result<std::optional<FoldPlan>> PlanFold(const Fitting& fitting, const window::Thresholds& limits,
                                         const window::TokensWithout& tokens) {
  const size_t num_rounds = fitting.num_rounds_over();
  window::Thresholds folded = limits;
  folded.low = std::max<int64_t>(1, limits.low - limits.summary);
  if (num_rounds == 0 || limits.hard == 0) return std::optional<FoldPlan>();
  KVGATE_TRY(const window::Fit fit, window::FitRounds(folded, num_rounds, tokens));
  if (fit.num_left_out == 0 || fit.after + limits.summary >= fit.before) {
    return std::optional<FoldPlan>();
  }
  return std::optional(fitting.PlanOf(fit, limits));
}

// The newest half of the prompt stays.
Result<Windowed> ForceFold(const Fitting& fitting, window::Settings settings) {
  window::Thresholds limits{.hard = std::numeric_limits<int64_t>::max() / 2};
  const auto tokens = [&](size_t num_left_out) { return fitting.Tokens(num_left_out, limits); };
  settings.mode = window::Mode::kSummary;
  window::Measures measures = fitting.MeasuresOf();
  KVGATE_TRY(const int64_t all, tokens(0));
  if (measures.context == 0 && settings.hard == 0) settings.hard = all;
  limits = window::ThresholdsOf(settings, measures);
  Windowed windowed;
  const size_t num_rounds = fitting.num_rounds_over();
  if (num_rounds == 0) return windowed;
  limits.high = std::max<int64_t>(0, all - 1);
  limits.low = std::max<int64_t>(1, std::min(limits.low, all / 2));
  KVGATE_TRY(const window::Fit fit, window::FitRounds(limits, num_rounds, tokens));
  // It has at most half of what it stands for, so that the prompt becomes shorter.
  const int64_t half = (fit.before - fit.after) / 2;
  if (fit.num_left_out > 0 && half >= std::min(limits.summary, kAskedSummaryTokensMin)) {
    limits.summary = std::min(limits.summary, half);
    windowed.fold = fitting.PlanOf(fit, limits);
  }
  return windowed;
}

}  // namespace

Result<Windowed> ApplyWindow(const RequestBody& request, std::string_view body,
                             const Composed& composed, const WindowArgs& args) {
  Fitting fitting(request, body, composed, args);
  Windowed windowed;
  if (args.is_forced) return ForceFold(fitting, args.settings);
  const window::Thresholds limits = window::ThresholdsOf(args.settings, fitting.MeasuresOf());
  const bool is_on = args.settings.mode != window::Mode::kOff;
  window::Fit fit;
  if (limits.hard > 0) {
    std::optional<int64_t> all;
    const auto tokens = [&](size_t num_left_out) -> Result<int64_t> {
      if (num_left_out > 0) return fitting.Tokens(num_left_out, limits);
      if (!all) {
        KVGATE_TRY(all, fitting.Tokens(0, limits));
      }
      return *all;
    };
    if (limits.summary > 0 && args.may_fold) {
      KVGATE_TRY(windowed.fold, PlanFold(fitting, limits, tokens));
    }
    // A summary has until the hard window to come.
    window::Thresholds drops = limits;
    if (limits.summary > 0) drops.high = limits.hard;
    if (args.drops) {
      KVGATE_TRY(const int64_t whole, tokens(0));
      drops.high = std::min(drops.high, whole - 1);
      drops.low = std::min(drops.low, drops.high);
    }
    KVGATE_TRY(fit, window::FitRounds(drops, is_on ? fitting.num_rounds_max() : 0, tokens));
  }
  if (is_on && fit.after > limits.hard) {
    return dialect::form::ContextLengthError(
        request.dialect, {.num_tokens = fit.after, .tokens_max = limits.hard},
        request.dialect == transcript::Dialect::kResponses ? "input" : "messages");
  }
  const log::History& history = composed.history;
  if (fit.num_left_out > 0) {
    windowed.event = fitting.EventOf(fit);
    windowed.compaction = fmt::format("done;before={};after={}", fit.before, fit.after);
  } else if (history.is_event_new) {
    windowed.compaction =
        fmt::format("done;before={};after={}", history.tokens_before, history.tokens_after);
  } else if (limits.hard > 0 && fit.before > limits.high) {
    windowed.compaction = "advised";
  }
  windowed.body = fitting.TakeBody(fit.num_left_out);
  return windowed;
}

}  // namespace kvgate::session
