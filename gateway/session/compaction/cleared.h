// Cleared: a Messages request without old results of tools or without old thinking, for a model
// whose provider does not clear them itself. All else stays byte for byte. Pure but for the marks;
// any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/session/compaction/cleared_marks.h"
#include "gateway/session/compaction/edits.h"

namespace kvgate::session::compaction {

// An edit, as an answer says what it did.
struct AppliedEdit {
  std::string_view type;
  int64_t num_cleared = 0;  // tool uses, or turns with thinking
  int64_t num_tokens = 0;   // that the prompt lost
};

struct Cleared {
  std::string body;
  int64_t num_cleared = 0;
};

// Returns nullopt if no turn loses anything.
std::optional<Cleared> ClearThinking(std::string_view body, const ThinkingEdit& edit);

struct ClearToolUsesArgs {
  std::string_view body;
  const ToolUseEdit& edit;
  int64_t num_tokens = 0;  // of the prompt; 0: not known, and no trigger of tokens is reached
  std::string_view tenant;
  ClearedMarks& marks;
};
// A conversation that was cleared before stays as it was cleared until it exceeds its trigger
// again. Returns nullopt if nothing is cleared.
std::optional<Cleared> ClearToolUses(const ClearToolUsesArgs& args);

}  // namespace kvgate::session::compaction
