// An Edit is one change to a request on its way to an upstream. No change is made that has no Rule.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/parse/segment.h"

namespace kvgate::prompt::parse {

// Each rule can be switched off by its name, per upstream and key (`rules_off`).
enum class Rule : uint8_t {
  // pin
  kToolsOrder,      // tools in the order in which this conversation or tenant first sent them
  kFirstSeenBytes,  // a value equal to one sent before goes out in the first one's bytes
  kNewlines,        // CRLF counts as LF in tools, system and history already sent
  // planner
  kCacheControl,  // cache_control breakpoints added, moved or given another TTL
  kTtlDropped,    // removes a ttl that this upstream does not accept
  kPromptCacheKey,
  kBreakpoints,     // OpenAI's explicit breakpoints
  kConversationId,  // adds the header x-grok-conv-id
  // stabilize
  kVolatileMoved,  // lines of volatile values move behind the stable prefix
  kVolatileHeld,   // values that nobody reads stay as the conversation first sent them
  kReminderKept,   // a reminder that the client moved stays where it was first seen
  kSystemSlots,    // lines of the system prompt that are known to change move or are held
  kToolSlots,      // likewise those of tools' descriptions
  // other
  kSourceField,      // kvgate_source is removed
  kOutputCap,        // the key's limits on output tokens are applied
  kThinkingRemoved,  // thinking goes where its prefix may not be the one that was sent before
  // stabilize; it stands here because the numbers of rules are kept on disk
  kUserSlots,   // lines of a conversation's first user text that are known to change
  kSystemTurn,  // lines of the system prompt go out in a turn of its own behind tool results
  // planner
  kExplicitCache,  // what a cache of Gemini's holds that was made under a name is named instead
};
inline constexpr size_t kNumRules = 19;
std::string_view RuleName(Rule rule);  // "tools_order"

constexpr uint32_t Bit(Rule rule) { return uint32_t{1} << static_cast<uint32_t>(rule); }
// The rules that only the mode `stabilize` applies, one bit each.
inline constexpr uint32_t kStabilizeRules = Bit(Rule::kVolatileMoved) | Bit(Rule::kVolatileHeld) |
                                            Bit(Rule::kReminderKept) | Bit(Rule::kSystemSlots) |
                                            Bit(Rule::kToolSlots) | Bit(Rule::kUserSlots) |
                                            Bit(Rule::kSystemTurn);

// The rules that change how the provider's cache is used, or its answer, but not what the model
// reads.
inline constexpr uint32_t kPrefixKeepingRules = Bit(Rule::kCacheControl) | Bit(Rule::kBreakpoints) |
                                                Bit(Rule::kTtlDropped) | Bit(Rule::kOutputCap) |
                                                Bit(Rule::kExplicitCache);

// The bytes of `span` are replaced by `bytes`.
struct Edit {
  Rule rule;
  Span span;          // of the body as received; empty: an insertion in front of `begin`
  std::string bytes;  // empty: the span is cut out
  std::string path;   // JSON path of the changed value
};

// Sorts by position in the body; insertions come before an edit that begins at the same byte.
void SortEdits(std::vector<Edit>& edits);
// Returns `part` of the body with the edits applied. REQUIRES: they are sorted, lie in `part` and
// do not overlap.
std::string ApplyEdits(std::string_view body, const std::vector<Edit>& edits, Span part);

}  // namespace kvgate::prompt::parse
