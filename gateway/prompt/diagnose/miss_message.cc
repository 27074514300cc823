#include "gateway/prompt/diagnose/miss_message.h"

#include <algorithm>
#include <array>

namespace kvgate::prompt::diagnose {
namespace {

struct Row {
  BreakCause cause;
  std::string_view name;
  std::string_view message;
};

// Rows stand in the order of BreakCause, which the static_assert below checks.
constexpr Row kRows[] = {
    {BreakCause::kNone, "none", "All that could be read was read."},
    {BreakCause::kFirstSeen, "first_seen",
     "Nothing of this conversation was sent before: the next request can read what this one "
     "stored."},
    {BreakCause::kModelChanged, "model_changed",
     "Each model has a cache of its own: stay with one in a conversation, or expect to pay once "
     "for all of it."},
    {BreakCause::kUpstreamChanged, "upstream_changed",
     "Upstreams share no cache: keep a conversation on one of them."},
    {BreakCause::kToolAdded, "tool_added",
     "Send all tools from the first request on, and choose among them with tool_choice or "
     "allowed tools."},
    {BreakCause::kToolRemoved, "tool_removed",
     "Leave the tool in the list, and forbid its use with tool_choice or allowed tools."},
    {BreakCause::kToolChanged, "tool_changed",
     "Leave a tool's definition as it is while a conversation lasts."},
    {BreakCause::kToolsReordered, "tools_reordered",
     "Send the tools in a fixed order, for example by name, or let the mode pin do it."},
    {BreakCause::kSystemChanged, "system_changed",
     "Leave the system prompt as it is while a conversation lasts, and send what is new with the "
     "newest user message."},
    {BreakCause::kHistoryEdited, "history_edited",
     "A turn that had been sent was rewritten: append instead, or rewrite rarely and much at "
     "once."},
    {BreakCause::kHistoryTruncated, "history_truncated",
     "Turns that had been sent are missing: drop turns rarely and many at once, so that in "
     "between the prompt only grows."},
    {BreakCause::kBlockMoved, "block_moved",
     "A block left an earlier turn for a later one: leave it where it was sent first, or let the "
     "mode stabilize do it."},
    {BreakCause::kParameterChanged, "parameter_changed",
     "The provider's cache depends on this parameter: keep its value while a conversation "
     "lasts."},
    {BreakCause::kTtlLapsed, "ttl_lapsed",
     "More time passed than the cache lives: ask for a longer lifetime where gaps are this long."},
    {BreakCause::kProviderMiss, "provider_miss",
     "Nothing you did: the same prefix was sent in time, and the provider had evicted it or "
     "routed the request elsewhere."},
    {BreakCause::kBelowMinimum, "below_minimum",
     "The prefix is shorter than this model caches at all: there is nothing to gain yet."},
    {BreakCause::kNotMarked, "not_marked",
     "Nothing asked for the prompt to be cached: set cache_control, or let the mode pin do it."},
};

constexpr std::string_view kVolatileMessage =
    "It holds a value that changes with each request: take it out or send it last, or let the "
    "mode stabilize do it.";
constexpr std::string_view kSpellingMessage =
    "It means the same and is written otherwise: write JSON the same way each time (order of keys, "
    "numbers, escapes), or let the mode pin do it.";
constexpr std::string_view kLookbackMessage =
    "More blocks came than the provider looks back from a marker: set one in between, or let the "
    "mode pin do it.";
constexpr std::string_view kUnansweredMessage =
    "Nothing that was sent differs, but the request before had not been answered: what it stores "
    "can be read once its answer has begun.";
constexpr std::string_view kThinkingMessage =
    "Nothing that was sent differs: the provider evicted the prefix, routed the request elsewhere, "
    "or left earlier thinking out of the prompt, as some models do at a new user message.";
constexpr std::string_view kNothingStoredMessage =
    "The request before was marked and long enough, and the provider stored nothing of it: nothing "
    "you did.";
constexpr std::string_view kNoBreakpointBeforeMessage =
    "The request before was not marked, so nothing of it was stored: mark every request, or let "
    "the mode pin do it.";
constexpr std::string_view kDisputedMessage =
    "This is the first thing that differs from the request before, but the provider gives another "
    "reason: look at both.";
constexpr std::string_view kDisputedMissMessage =
    "Nothing that was sent differs from the request before, but the provider says that something "
    "changed: look at its reason.";

constexpr bool InOrder() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (kRows[i].cause != static_cast<BreakCause>(i)) return false;
  }
  return std::size(kRows) == static_cast<size_t>(BreakCause::kNotMarked) + 1;
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
      kParameter, kParameter},
     {}},
    {"input_changed",
     {BreakCause::kHistoryEdited, BreakCause::kHistoryTruncated, BreakCause::kBlockMoved,
      BreakCause::kSystemChanged, BreakCause::kSystemChanged},
     {}},
    Only("context_compacted", BreakCause::kHistoryTruncated),
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

std::string_view MessageOf(BreakCause cause, BreakDetail detail, Agreement agreement) {
  if (cause == BreakCause::kNone || cause == BreakCause::kFirstSeen) return RowOf(cause).message;
  if (agreement == Agreement::kDisagrees) {
    return IsMiss(cause) ? kDisputedMissMessage : kDisputedMessage;
  }
  switch (detail) {
    case BreakDetail::kVolatile:
      return kVolatileMessage;
    case BreakDetail::kSpelling:
      return cause == BreakCause::kToolsReordered ? RowOf(cause).message : kSpellingMessage;
    case BreakDetail::kLookback:
      return kLookbackMessage;
    case BreakDetail::kUnanswered:
      return kUnansweredMessage;
    case BreakDetail::kThinking:
      return kThinkingMessage;
    case BreakDetail::kNothingStored:
      return kNothingStoredMessage;
    case BreakDetail::kNoBreakpointBefore:
      return kNoBreakpointBeforeMessage;
    case BreakDetail::kPlain:
      break;
  }
  return RowOf(cause).message;
}

}  // namespace kvgate::prompt::diagnose
