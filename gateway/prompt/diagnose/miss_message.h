// Chooses what to tell the user about a broken prefix: one literal sentence with the remedy. All
// functions are pure and may be called from any thread.
#pragma once

#include <cstdint>
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
};

// Compares the provider's own reason for a miss with the cause that was found.
enum class Agreement : uint8_t { kSilent, kAgrees, kDisagrees };
// `path` is the JSON path of the break.
Agreement CompareReason(std::string_view provider_reason, BreakCause cause, std::string_view path);

std::string_view MessageOf(BreakCause cause, BreakDetail detail, Agreement agreement);

}  // namespace kvgate::prompt::diagnose
