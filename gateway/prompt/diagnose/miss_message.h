// BreakVerdict: what to say of a break: one literal sentence that says what to do. Pure; any
// thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "gateway/prompt/prefix_break.h"

namespace kvgate::prompt {

// What else is known of a break.
enum class BreakDetail : uint8_t {
  kPlain,
  kVolatile,        // only volatile text differs
  kSpelling,        // the values are equal as parsed
  kLookback,        // too many blocks stand between two markers
  kUnanswered,      // no answer to the request before was known of when this one's ended
  kThinking,        // thinking was sent before, which a provider may leave out of its prompt
  kNothingStored,   // the request before stored nothing, although it asked for it
  kNoMarkerBefore,  // it did not ask for it
};

// What the provider's own reason is to the cause that was found.
enum class Agreement : uint8_t { kSilent, kAgrees, kDisagrees };
// `path` is that of the break.
Agreement CompareReason(std::string_view provider_reason, BreakCause cause, std::string_view path);

std::string_view VerdictOf(BreakCause cause, BreakDetail detail, Agreement agreement);

}  // namespace kvgate::prompt
