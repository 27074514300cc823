#include "gateway/prompt/diagnose/miss_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gateway/prompt/parse/edit.h"

namespace kvgate::prompt::diagnose {

using parse::Rule;

namespace {

// A remedy that the gateway has: a rule, and the mode in which it acts.
struct Remedy {
  std::string_view mode;  // empty: the gateway has none
  Rule rule = Rule::kToolsOrder;
};
constexpr Remedy kNoRemedy = {};
constexpr Remedy kOrderTools = {"pin", Rule::kToolsOrder};
constexpr Remedy kFirstBytes = {"pin", Rule::kFirstSeenBytes};
constexpr Remedy kMark = {"pin", Rule::kCacheControl};
constexpr Remedy kMove = {"stabilize", Rule::kVolatileMoved};
constexpr Remedy kKeepReminder = {"stabilize", Rule::kReminderKept};

// A sentence without its full stop, in front of which the gateway's remedy is offered.
struct Sentence {
  std::string_view text;
  Remedy remedy = kNoRemedy;
};

struct Row {
  BreakCause cause;
  std::string_view name;
  Sentence sentence;
};

// Rows stand in the order of BreakCause, which the static_assert below checks.
constexpr Row kRows[] = {
    {BreakCause::kNone,
     "none",
     {"All that was sent before was read, to within a block of the provider's cache"}},
    {BreakCause::kFirstSeen,
     "first_seen",
     {"Nothing like it was sent before: the next request can read what this one stored"}},
    {BreakCause::kModelChanged,
     "model_changed",
     {"Each model has a cache of its own: stay with one in a conversation, or expect to pay once "
      "for all of it"}},
    {BreakCause::kUpstreamChanged,
     "upstream_changed",
     {"Upstreams share no cache: keep a conversation on one of them"}},
    {BreakCause::kToolAdded,
     "tool_added",
     {"Send all tools from the first request on, and choose among them with tool_choice or "
      "allowed tools"}},
    {BreakCause::kToolRemoved,
     "tool_removed",
     {"Leave the tool in the list, and forbid its use with tool_choice or allowed tools"}},
    {BreakCause::kToolChanged,
     "tool_changed",
     {"Leave a tool's definition as it is while a conversation lasts"}},
    {BreakCause::kToolsReordered,
     "tools_reordered",
     {"Send the tools in a fixed order, for example by name", kOrderTools}},
    {BreakCause::kSystemChanged,
     "system_changed",
     {"Leave the system prompt as it is while a conversation lasts, and send what is new with the "
      "newest user message"}},
    {BreakCause::kHistoryEdited,
     "history_edited",
     {"A turn that had been sent was rewritten: append instead, or rewrite rarely and much at "
      "once"}},
    {BreakCause::kHistoryTruncated,
     "history_truncated",
     {"Turns that had been sent are missing: drop turns rarely and many at once, so that in "
      "between the prompt only grows"}},
    {BreakCause::kBlockMoved,
     "block_moved",
     {"A block left an earlier turn for a later one: leave it where it was sent first",
      kKeepReminder}},
    {BreakCause::kParameterChanged,
     "parameter_changed",
     {"The provider's cache depends on this parameter: keep its value while a conversation lasts"}},
    {BreakCause::kTtlLapsed,
     "ttl_lapsed",
     {"More time passed than the cache lives: ask for a longer lifetime where gaps are this "
      "long"}},
    {BreakCause::kProviderMiss,
     "provider_miss",
     {"Nothing you did: the same prefix was sent in time, and the provider had evicted it or "
      "routed the request elsewhere"}},
    {BreakCause::kBelowMinimum,
     "below_minimum",
     {"The prefix is shorter than this model caches at all: there is nothing to gain yet"}},
    {BreakCause::kNotMarked,
     "not_marked",
     {"Nothing asked for the prompt to be cached: set cache_control", kMark}},
    {BreakCause::kCompacted,
     "compacted",
     {"A summary took the place of earlier turns: what is kept behind it is paid once more, so "
      "compact rarely and much at once"}},
};

constexpr Sentence kVolatile = {
    "It holds a value that changes with each request: take it out or send it last", kMove};
constexpr Sentence kSpelling = {
    "It means the same and is written otherwise: write JSON the same way each time (order of keys, "
    "numbers, escapes)",
    kFirstBytes};
constexpr Sentence kLookback = {
    "More blocks came than the provider looks back from a marker: set one in between", kMark};
constexpr Sentence kUnanswered = {
    "Nothing that was sent differs, but the request before had not been answered: what it stores "
    "can be read once its answer has begun"};
constexpr Sentence kThinking = {
    "Nothing that was sent differs: the provider evicted the prefix, routed the request elsewhere, "
    "or left earlier thinking out of the prompt, as some models do at a new user message"};
constexpr Sentence kNothingStored = {
    "The request before was marked and long enough, and the provider stored nothing of it: nothing "
    "you did"};
constexpr Sentence kNoBreakpointBefore = {
    "The request before was not marked, so nothing of it was stored: mark every request", kMark};
constexpr Sentence kEarlyBreakpoint = {
    "The markers of the request before ended in front of much that this one repeats: set one at "
    "the end of the newest turn",
    kMark};
constexpr Sentence kSharedUnmarked = {
    "No marker ends what the agent's conversations share: set one at the end of the system prompt",
    kMark};
constexpr Sentence kOwnKey = {
    "The gateway sent another prompt_cache_key than with the request before: nothing you did"};
constexpr Sentence kHeldElsewhere = {
    "The provider holds the earlier turns, and nothing in this request shows a break"};
constexpr Sentence kNoUsage = {
    "The answer has no counts, so what was read is not known, and nothing that was sent differs"};
constexpr Sentence kDisputed = {
    "This is the first thing that differs from the request before, but the provider gives another "
    "reason: look at both"};
constexpr Sentence kDisputedMiss = {
    "Nothing that was sent differs from the request before, but the provider says that something "
    "changed: look at its reason"};

constexpr bool InOrder() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (kRows[i].cause != static_cast<BreakCause>(i)) return false;
  }
  return std::size(kRows) == kNumBreakCauses;
}
static_assert(InOrder());

const Row& RowOf(BreakCause cause) { return kRows[static_cast<size_t>(cause)]; }

// Maps a provider's reason to the causes that it can mean. Reasons that are missing here say
// nothing about the cause: "pending", "unavailable", "previous_message_not_found", "cache_miss".
struct Meaning {
  std::string_view reason;
  std::array<BreakCause, 5> causes;  // padded with the last one
  std::string_view path;             // a parameter's path must begin with it; empty: any path
};
constexpr Meaning Only(std::string_view reason, BreakCause cause, std::string_view path = {}) {
  return {reason, {cause, cause, cause, cause, cause}, path};
}
constexpr BreakCause kParameter = BreakCause::kParameterChanged;
constexpr Meaning kMeanings[] = {
    Only("model_changed", BreakCause::kModelChanged),
    {"tools_changed",
     {BreakCause::kToolAdded, BreakCause::kToolRemoved, BreakCause::kToolChanged,
      BreakCause::kToolsReordered, kParameter},
     "tools"},
    {"system_changed",
     {BreakCause::kSystemChanged, kParameter, kParameter, kParameter, kParameter},
     {}},
    {"messages_changed",
     {BreakCause::kHistoryEdited, BreakCause::kHistoryTruncated, BreakCause::kBlockMoved,
      BreakCause::kCompacted, kParameter},
     {}},
    {"input_changed",
     {BreakCause::kHistoryEdited, BreakCause::kHistoryTruncated, BreakCause::kBlockMoved,
      BreakCause::kSystemChanged, BreakCause::kCompacted},
     {}},
    {"context_compacted",
     {BreakCause::kCompacted, BreakCause::kHistoryTruncated, BreakCause::kCompacted,
      BreakCause::kCompacted, BreakCause::kCompacted},
     {}},
    Only("prompt_cache_key_changed", kParameter, "prompt_cache_key"),
    Only("service_tier_changed", kParameter, "service_tier"),
    Only("text_format_changed", kParameter, "text.format"),
    Only("reasoning_effort_changed", kParameter, "reasoning"),
    Only("verbosity_changed", kParameter, "text.verbosity"),
    Only("cache_hit", BreakCause::kNone),
};

bool IsMiss(BreakCause cause) {
  return cause == BreakCause::kProviderMiss || cause == BreakCause::kTtlLapsed ||
         cause == BreakCause::kNotMarked || cause == BreakCause::kBelowMinimum;
}

bool IsOff(const Treatment& treatment, Rule rule) {
  return (treatment.rules_off >> static_cast<uint32_t>(rule) & 1) != 0;
}

// Offers what the gateway could do; empty if it has no remedy, or does it already.
std::string OfferOf(const Remedy& remedy, const Treatment& treatment) {
  if (remedy.mode.empty() || !treatment.can_change) return "";
  const bool acts = remedy.mode == "pin" ? treatment.pins : treatment.stabilizes;
  if (!acts) return fmt::format(", or let the mode {} do it", remedy.mode);
  if (!IsOff(treatment, remedy.rule)) return "";
  return fmt::format(", or switch the rule {} on again", parse::RuleName(remedy.rule));
}

const Sentence& SentenceOf(const MessageArgs& args) {
  const Sentence& plain = RowOf(args.cause).sentence;
  if (args.agreement == Agreement::kDisagrees && args.cause != BreakCause::kNone &&
      args.cause != BreakCause::kFirstSeen) {
    return IsMiss(args.cause) ? kDisputedMiss : kDisputed;
  }
  switch (args.detail) {
    case BreakDetail::kVolatile:
      return kVolatile;
    case BreakDetail::kSpelling:
      return args.cause == BreakCause::kToolsReordered ? plain : kSpelling;
    case BreakDetail::kLookback:
      return kLookback;
    case BreakDetail::kUnanswered:
      return kUnanswered;
    case BreakDetail::kThinking:
      return kThinking;
    case BreakDetail::kNothingStored:
      return kNothingStored;
    case BreakDetail::kNoBreakpointBefore:
      return kNoBreakpointBefore;
    case BreakDetail::kEarlyBreakpoint:
      return kEarlyBreakpoint;
    case BreakDetail::kSharedUnmarked:
      return kSharedUnmarked;
    case BreakDetail::kOwnKey:
      return kOwnKey;
    case BreakDetail::kHeldElsewhere:
      return kHeldElsewhere;
    case BreakDetail::kNoUsage:
      return kNoUsage;
    case BreakDetail::kPlain:
      break;
  }
  return plain;
}

}  // namespace

std::string_view BreakCauseName(BreakCause cause) { return RowOf(cause).name; }

Agreement CompareReason(std::string_view provider_reason, BreakCause cause, std::string_view path) {
  const auto found =
      std::find_if(std::begin(kMeanings), std::end(kMeanings),
                   [&](const Meaning& meaning) { return meaning.reason == provider_reason; });
  if (found == std::end(kMeanings) || cause == BreakCause::kFirstSeen) return Agreement::kSilent;
  const bool named =
      std::find(found->causes.begin(), found->causes.end(), cause) != found->causes.end();
  const bool there = cause != kParameter || path.starts_with(found->path);
  return named && there ? Agreement::kAgrees : Agreement::kDisagrees;
}

std::string MessageOf(const MessageArgs& args) {
  const Sentence& sentence = SentenceOf(args);
  std::string message =
      fmt::format("{}{}.", sentence.text, OfferOf(sentence.remedy, args.treatment));
  if (args.line > 0) message += fmt::format(" It begins in line {} of the text.", args.line);
  if (args.cause == BreakCause::kNotMarked && args.treatment.pins &&
      !IsOff(args.treatment, Rule::kCacheControl) && !args.treatment.plan.empty()) {
    message += fmt::format(" The planner's reason: {}.", args.treatment.plan);
  }
  if (!args.same_conversation && args.cause != BreakCause::kNone) {
    message += " It was compared with another conversation of the same agent.";
  }
  return message;
}

}  // namespace kvgate::prompt::diagnose
