#include "engine/schedule/context_policy.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvgate::schedule {
namespace {

constexpr std::pair<ContextPolicy, std::string_view> kNames[] = {
    {ContextPolicy::kNone, "none"},
    {ContextPolicy::kSlidingWindow, "sliding_window"},
    {ContextPolicy::kAttentionSink, "attention_sink"},
    {ContextPolicy::kLeastAttended, "least_attended"},
};

// Returns the first block of [begin, end), or nullopt if it is empty.
std::optional<int> FirstOf(int begin, int end) {
  return begin < end ? std::optional<int>(begin) : std::nullopt;
}

}  // namespace

std::string_view ContextPolicyName(ContextPolicy policy) {
  const auto named =
      std::ranges::find(kNames, policy, [](const auto& entry) { return entry.first; });
  KVGATE_CHECK(named != std::end(kNames), "unknown context policy");
  return named->second;
}

std::optional<ContextPolicy> FindContextPolicy(std::string_view name) {
  for (const auto& [policy, known] : kNames) {
    if (known == name) return policy;
  }
  return std::nullopt;
}

std::optional<int> BlockToDrop(ContextPolicy policy, int blocks_max, const ContextTable& table) {
  KVGATE_CHECK(table.num_newest_blocks >= 0 && table.num_newest_blocks <= table.num_blocks,
               "newest blocks of a table");
  if (table.num_blocks <= blocks_max) return std::nullopt;
  const int end = table.num_blocks - table.num_newest_blocks;
  switch (policy) {
    case ContextPolicy::kNone:
      return std::nullopt;
    case ContextPolicy::kSlidingWindow:
      return FirstOf(0, end);
    case ContextPolicy::kAttentionSink:
      return FirstOf(1, end);
    case ContextPolicy::kLeastAttended:
      break;
  }
  KVGATE_CHECK(static_cast<int>(table.block_mass.size()) == table.num_blocks,
               "one mass for each block");
  const int num_recent = (table.num_blocks + 3) / 4;
  const int least_end = std::min(end, table.num_blocks - num_recent);
  if (least_end <= 1) return std::nullopt;
  const auto candidates = table.block_mass.first(static_cast<size_t>(least_end)).subspan(1);
  return static_cast<int>(std::ranges::min_element(candidates) - table.block_mass.begin());
}

}  // namespace kvgate::schedule
