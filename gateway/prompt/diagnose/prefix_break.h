// Explains why a prompt's cached prefix ended where it did: the first difference from the
// conversation's previous request, by name and JSON path, and what it cost. Pure; any thread may
// call it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/ledger/prices.h"
#include "gateway/ledger/usage.h"
#include "gateway/prompt/history/conversation.h"

namespace kvgate::prompt::diagnose {

enum class BreakCause : uint8_t {
  kNone,       // all that could be read was read
  kFirstSeen,  // nothing of this conversation or shape was sent before
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
};
std::string_view BreakCauseName(BreakCause cause);  // "tool_added"

struct PrefixBreak {
  BreakCause cause = BreakCause::kNone;
  std::string path;                // "tools[3].input_schema.properties.q", "messages[4].content[1]"
  std::string_view volatile_kind;  // a literal: "time", "uuid", "counter", "git_status" …; or empty
  std::string before;  // a short excerpt around the difference; only if text may be kept
  std::string after;
  int64_t reusable_tokens = 0;   // tokens in front of the difference
  int64_t lost_tokens = 0;       // sent before and again, but not read
  int64_t lost_nanodollars = 0;  // what reading them would have saved; 0: the price is unknown
  std::string_view message;      // a literal sentence with the remedy
};

struct BreakArgs {
  const history::SentRequest* before = nullptr;  // null: there was none
  const history::SentRequest& now;
  const ledger::PriceRow* row = nullptr;
  const std::optional<ledger::TokenUsage>& usage;  // of this request's answer
  std::string_view provider;
  // The provider's own reason, if it gave one: "tools_changed", "system_changed" …; may be empty.
  std::string_view provider_reason = {};
  bool keep_text = false;
};
PrefixBreak FindBreak(const BreakArgs& args);

}  // namespace kvgate::prompt::diagnose
