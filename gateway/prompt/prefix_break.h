// PrefixBreak: why a prompt's cached prefix ended where it did: the first thing that differs from
// the conversation's request before, by name and JSON path, and what it cost. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/ledger/prices.h"
#include "gateway/ledger/usage.h"
#include "gateway/prompt/history/conversation.h"

namespace kvgate::prompt {

enum class BreakCause : uint8_t {
  kNone,       // all that could be read was read
  kFirstSeen,  // nothing of this conversation, or shape, was sent before
  kModelChanged,
  kUpstreamChanged,
  kToolAdded,
  kToolRemoved,
  kToolChanged,
  kToolsReordered,
  kSystemChanged,     // `volatile_kind` says by what, where it is one
  kHistoryEdited,     // a turn sent before has other bytes
  kHistoryTruncated,  // turns sent before are missing
  kBlockMoved,        // a block left its place for another turn
  kParameterChanged,  // one that the provider keeps caches apart by
  kTtlLapsed,         // too much time has passed: what does not differ was not read either
  kProviderMiss,      // nothing differs and it is in time: evicted or routed elsewhere
  kBelowMinimum,      // the prefix is too short to be cached
  kNotMarked,         // nothing asked for it to be cached
};
std::string_view BreakCauseName(BreakCause cause);  // "tool_added"

struct PrefixBreak {
  BreakCause cause = BreakCause::kNone;
  std::string path;                // "tools[3].input_schema.properties.q", "messages[4].content[1]"
  std::string_view volatile_kind;  // a literal: "time", "uuid", "counter", "git_status" …; or empty
  std::string before;  // a short excerpt around the difference; only if text may be kept
  std::string after;
  int64_t reusable_tokens = 0;   // of the prefix in front of it
  int64_t lost_tokens = 0;       // sent before and again, and not read
  int64_t lost_nanodollars = 0;  // what reading them would have saved; 0: no price known
  std::string_view verdict;      // a literal sentence: what to do about it
};

struct BreakArgs {
  const SentRequest* before = nullptr;  // null: there was none
  const SentRequest& now;
  const ledger::PriceRow* row = nullptr;
  const std::optional<ledger::TokenUsage>& usage;  // of this request's answer
  std::string_view provider;
  // What the provider itself said, where it did: "tools_changed", "system_changed" …; or empty.
  std::string_view provider_reason = {};
  bool keep_text = false;
};
PrefixBreak FindBreak(const BreakArgs& args);

}  // namespace kvgate::prompt
