// PromptDifference finds the first difference between an earlier request and this one, as sent, in
// the order in which the provider renders a prompt. It knows no usage. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/prompt/diagnose/cache_effects.h"
#include "gateway/prompt/diagnose/prefix_break.h"
#include "gateway/prompt/history/conversation.h"

namespace kvgate::prompt::diagnose {

struct PromptDifference {
  BreakCause cause = BreakCause::kNone;
  std::string path = {};
  std::string_view volatile_kind = {};
  bool same_value = false;       // equal as parsed: only spelling or order differs
  int64_t front_tokens = 0;      // estimated tokens of this request in front of the difference
  bool is_ours = false;          // a parameter that the gateway has added or changed
  std::string_view before = {};  // the values that differ; views into the requests
  std::string_view after = {};
};

struct DifferenceArgs {
  const history::SentRequest& before;
  const history::SentRequest& now;
  const CacheEffects& effects;
  // Estimated tokens that were read. A parameter that would have broken the prompt far in front of
  // the point up to which it was read is not the cause.
  int64_t read_tokens = 0;
  bool same_conversation = true;  // false: turns are not compared
};
// Returns nullopt if this request only extends the previous one.
std::optional<PromptDifference> FindPromptDifference(const DifferenceArgs& args);

}  // namespace kvgate::prompt::diagnose
