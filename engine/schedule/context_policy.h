// Which KV a sequence gives up when its context is bounded: at certain tokens the caller asks until
// nothing more is to be dropped, takes the block out of the sequence's table, and adds its tokens
// to num_dropped_tokens (kernels/backend.h). Pure functions; no pool, no sequence.
//
// What a token sees must depend on the tokens before it alone, or an answer would depend on how
// its prompt was cut into steps, and on what was cached of it. So blocks are dropped when the table
// has grown by kContextGrowthBlocks beyond what is kept, and only then: always at the same tokens.
// For the same reason attention counts (block_mass) from the token on behind which no hit goes.
//
// A sequence whose blocks were dropped never again offers KV to the prefix cache: what it computes
// from then on has not seen the whole prefix, so it is not the KV of those tokens. What it offered
// before the first drop stays good.
//
// Sources: attention sinks, Xiao et al. 2023; least attended (heavy hitters), Zhang et al. 2023.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace kvgate::schedule {

enum class ContextPolicy : uint8_t {
  kNone,           // nothing is dropped
  kSlidingWindow,  // the oldest block
  kAttentionSink,  // the oldest but block 0, which attention leans on whatever it says
  kLeastAttended,  // the one with the least attention so far, but block 0 and the recent quarter
};

// "none", "sliding_window", "attention_sink", "least_attended"
std::string_view ContextPolicyName(ContextPolicy policy);
std::optional<ContextPolicy> FindContextPolicy(std::string_view name);

// The fewest KV tokens a bounded sequence may keep: fewer would leave no block to choose.
inline constexpr int kContextPolicyTokensMin = 128;

// A bounded sequence grows by so many blocks beyond what it keeps before it is cut back to that:
// room for a prefill chunk.
inline constexpr int kContextGrowthBlocks = 8;

// A sequence's block table, oldest block first.
struct ContextTable {
  int num_blocks = 0;
  int num_newest_blocks = 1;  // at its end: not yet full, or about to be written; never dropped
  // [num_blocks], from Backend::Attention, entries of dropped blocks taken out; read by
  // kLeastAttended only.
  std::span<const uint64_t> block_mass;
};

// The index of the block to drop next; none where num_blocks <= blocks_max or where the policy
// protects all there is. Equally little attended: the oldest.
std::optional<int> BlockToDrop(ContextPolicy policy, int blocks_max, const ContextTable& table);

}  // namespace kvgate::schedule
