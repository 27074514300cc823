// Explains why a prompt's cached prefix ended where it did: the first difference from an earlier
// request, by name and JSON path, and what it cost. The verdict follows from what was sent and what
// the provider read of it. Pure; any thread may call it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/ledger/prices.h"
#include "gateway/ledger/reply/usage.h"
#include "gateway/prompt/history/conversation.h"

namespace kvgate::prompt::diagnose {

enum class BreakCause : uint8_t {
  kNone,       // all that was sent before was read
  kFirstSeen,  // nothing comparable was sent before
  kModelChanged,
  kUpstreamChanged,
  kToolAdded,
  kToolRemoved,
  kToolChanged,
  kToolsReordered,
  kSystemChanged,     // `volatile_kind` names the kind if only volatile text differs
  kHistoryEdited,     // a turn sent before has other bytes
  kHistoryTruncated,  // turns sent before are missing
  kBlockMoved,        // a block moved to another turn
  kParameterChanged,  // a parameter by which the provider separates caches
  kTtlLapsed,         // the TTL is over, and even the equal prefix was not read
  kProviderMiss,      // nothing differs and the TTL is not over: evicted or routed elsewhere
  kBelowMinimum,      // the prefix is too short to be cached
  kNotMarked,         // no breakpoint asked for it to be cached
  kCompacted,         // a summary stands in place of turns sent before
};
inline constexpr size_t kNumBreakCauses = static_cast<size_t>(BreakCause::kCompacted) + 1;
std::string_view BreakCauseName(BreakCause cause);  // "tool_added"

struct PrefixBreak {
  BreakCause cause = BreakCause::kNone;
  std::string path;                // "tools[3].input_schema.properties.q", "messages[4].content[1]"
  std::string_view volatile_kind;  // a literal: "time", "uuid", "counter", "git_status" …; or empty
  std::string before;  // a short excerpt around the difference; only if text may be kept
  std::string after;
  int64_t reusable_tokens = 0;   // tokens in front of the difference
  int64_t lost_tokens = 0;       // sent before and again, but not read, whatever the cause
  int64_t lost_nanodollars = 0;  // what reading them would have saved; 0: the price is unknown
  std::string message;           // what happened and the remedy, in one to three sentences
};

// What the gateway itself does to the request. A verdict never advises what is done already.
struct Treatment {
  bool can_change = true;      // false: nothing of this request may be changed
  bool pins = false;           // the rules of the mode pin, and the planner's breakpoints
  bool stabilizes = false;     // in addition, the rules of the mode stabilize
  uint32_t rules_off = 0;      // one bit per parse::Rule
  std::string_view plan = {};  // why the planner decided as it did; empty: it did not plan
};

struct BreakArgs {
  const history::SentRequest* before = nullptr;  // null: there was none
  // False if `before` is of another conversation of the same agent: its turns are not comparable.
  bool same_conversation = true;
  const history::SentRequest& now;
  const ledger::PriceRow* row = nullptr;
  const std::optional<ledger::reply::TokenUsage>& usage;  // of this request's answer
  std::string_view provider;
  std::string_view service_tier = {};  // as the answer names it
  Treatment treatment = {};
  // The provider's own reason, if it gave one: "tools_changed", "system_changed" …; may be empty.
  std::string_view provider_reason = {};
  bool keep_text = false;
};
PrefixBreak FindBreak(const BreakArgs& args);

}  // namespace kvgate::prompt::diagnose
