// Writes what the user is told about a broken prefix: what happened, where, and the remedy that is
// left. All functions are pure and may be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/prompt/diagnose/prefix_break.h"

namespace kvgate::prompt::diagnose {

// Further facts about a break that change its message.
enum class BreakDetail : uint8_t {
  kPlain,
  kVolatile,            // only volatile text differs
  kSpelling,            // the values are equal as parsed
  kLookback,            // more blocks than the provider looks back stand between two breakpoints
  kUnanswered,          // the request before had no known answer when this one's answer ended
  kThinking,            // thinking was sent before, and the provider may leave it out of its prompt
  kNothingStored,       // the request before asked for caching, but the provider stored nothing
  kNoBreakpointBefore,  // the request before did not ask for caching
  kEarlyBreakpoint,     // the request before asked for a part of it only
  kSharedUnmarked,      // no breakpoint ends what conversations of an agent share
  kOwnKey,              // the gateway itself has set or changed the cache key
  kHeldElsewhere,       // of kNone: the provider holds the turns
  kNoUsage,             // of kNone: the answer has no counts
};

// Compares the provider's own reason for a miss with the cause that was found.
enum class Agreement : uint8_t { kSilent, kAgrees, kDisagrees };
// `path` is the JSON path of the break.
Agreement CompareReason(std::string_view provider_reason, BreakCause cause, std::string_view path);

struct MessageArgs {
  BreakCause cause = BreakCause::kNone;
  BreakDetail detail = BreakDetail::kPlain;
  Agreement agreement = Agreement::kSilent;
  Treatment treatment = {};
  bool same_conversation = true;
  int64_t line = 0;  // of the text at the break's path, from 1; 0: it has one line, or is no text
};
std::string MessageOf(const MessageArgs& args);

}  // namespace kvgate::prompt::diagnose
