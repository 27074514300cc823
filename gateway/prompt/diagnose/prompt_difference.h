// PromptDifference: the first thing, in the order in which its provider renders a prompt, that
// differs between a conversation's request before and this one, as sent. It knows no usage. Pure;
// any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/prompt/diagnose/cache_effects.h"
#include "gateway/prompt/history/conversation.h"
#include "gateway/prompt/prefix_break.h"

namespace kvgate::prompt {

struct PromptDifference {
  BreakCause cause = BreakCause::kNone;
  std::string path = {};
  std::string_view volatile_kind = {};
  bool same_value = false;       // equal as parsed: only its spelling, or order, differs
  int64_t front_tokens = 0;      // of this request, in front of it: as estimated
  std::string_view before = {};  // what stands there; views into the requests
  std::string_view after = {};
};

struct DifferenceArgs {
  const SentRequest& before;
  const SentRequest& now;
  const CacheEffects& effects;
  // Estimated tokens that were read. A parameter that would have broken the prompt far in front of
  // where reading ended is not what broke it.
  int64_t read_tokens = 0;
};
// Nothing: this request goes on from the other one.
std::optional<PromptDifference> FindPromptDifference(const DifferenceArgs& args);

}  // namespace kvgate::prompt
