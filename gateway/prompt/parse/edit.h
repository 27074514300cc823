// Edit: one change to a request on its way to an upstream. What is not named here is not done.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/parse/segment.h"

namespace kvgate::prompt {

// Each can be switched off by its name, per upstream and key (`rules_off`).
enum class Rule : uint8_t {
  // pin
  kToolsOrder,      // the tools in the order in which this conversation, or tenant, sent them first
  kFirstSeenBytes,  // a value that equals one sent before goes out in that one's bytes
  kNewlines,        // CRLF and LF are one, in tools, system and history already sent
  // planner
  kCacheControl,  // breakpoints added, moved or given another TTL
  kTtlDropped,    // a ttl that this upstream does not take
  kPromptCacheKey,
  kBreakpoints,     // OpenAI's explicit ones
  kConversationId,  // a header: x-grok-conv-id
  // stabilize
  kVolatileMoved,  // lines of volatile values, behind the stable prefix
  kVolatileHeld,   // the conversation's first value of what nobody reads
  kReminderKept,   // a reminder that moved away stays where it was first seen
  // other
  kSourceField,  // kvgate_source is taken out
  kOutputCap,    // default_max_tokens
};
inline constexpr size_t kNumRules = 13;
std::string_view RuleName(Rule rule);  // "tools_order"

// Where the bytes of `span` are replaced by `bytes`.
struct Edit {
  Rule rule;
  Span span;          // of the body as received; empty: an insertion in front of `begin`
  std::string bytes;  // empty: cut out
  std::string path;   // of what it changes
};

// In the order of the body; insertions in front of what begins at the same byte.
void SortEdits(std::vector<Edit>& edits);
// `part` of the body with the edits, which are sorted, lie in it and do not overlap.
std::string ApplyEdits(std::string_view body, const std::vector<Edit>& edits, Span part);

}  // namespace kvgate::prompt
