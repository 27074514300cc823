// Edits: what the `context_management.edits` of a Messages request ask to be cleared from its
// prompt: old results of tools, old thinking. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvgate::session::compaction {

inline constexpr std::string_view kClearToolUses = "clear_tool_uses_20250919";
inline constexpr std::string_view kClearThinking = "clear_thinking_20251015";

// Clears all but the newest results once the prompt exceeds its trigger.
struct ToolUseEdit {
  enum class Unit : uint8_t { kInputTokens, kToolUses };
  Unit unit = Unit::kInputTokens;
  int64_t trigger = 100'000;            // of the unit
  int64_t keep = 3;                     // tool uses, the newest
  int64_t tokens_min = 0;               // clears at least so many, or nothing
  std::set<std::string> excluded = {};  // names of tools of which nothing is cleared
  // The inputs of calls are cleared too: of all tools, or of those named.
  bool clears_inputs = false;
  std::set<std::string> input_tools = {};
};

// Clears the thinking of all but the newest turns that have any.
struct ThinkingEdit {
  std::optional<int64_t> keep = 1;  // turns; none: all
};

struct Edits {
  std::optional<ThinkingEdit> thinking = {};
  std::optional<ToolUseEdit> tool_uses = {};
  bool empty() const { return !tool_uses && !thinking; }
};

// Reads the list of edits; those of other types are not looked at. Fails with kInvalidArgument and
// the field's name.
Result<Edits> ReadEdits(std::string_view list);

}  // namespace kvgate::session::compaction
