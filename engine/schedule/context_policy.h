// Chooses the KV blocks that a sequence with a bounded context drops. At certain tokens the caller
// asks until there is nothing more to drop, takes each block out of the sequence's table, and adds
// its tokens to num_dropped_tokens (kernels/backend.h). Pure functions; they know no pool or
// sequence.
//
// A token's visible context must depend only on the tokens before it; otherwise an answer would
// depend on how its prompt was cut into steps and on how much was cached. So blocks are dropped
// exactly when the table has grown by kContextGrowthBlocks beyond what is kept: always at the same
// tokens. For the same reason attention is counted (block_mass) only from the token on behind which
// no hit can end.
//
// A sequence that dropped blocks never again offers KV to the prefix cache: later KV has not seen
// the whole prefix, so it is not the KV of those tokens. Blocks offered before the first drop stay
// valid.
//
// Sources: attention sinks, Xiao et al. 2023; least attended (heavy hitters), Zhang et al. 2023.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace kvgate::schedule {

enum class ContextPolicy : uint8_t {
  kNone,           // drops nothing
  kSlidingWindow,  // drops the oldest block
  kAttentionSink,  // drops the oldest but block 0, which receives attention whatever its content
  kLeastAttended,  // drops the one with the least attention, except block 0 and the newest quarter
};

// Returns "none", "sliding_window", "attention_sink" or "least_attended".
std::string_view ContextPolicyName(ContextPolicy policy);
std::optional<ContextPolicy> FindContextPolicy(std::string_view name);

// The fewest KV tokens a bounded sequence may keep; with fewer there would be no block to choose.
inline constexpr int kContextPolicyTokensMin = 128;

// The number of blocks by which a bounded sequence grows before it is cut back; it leaves room for
// a prefill chunk.
inline constexpr int kContextGrowthBlocks = 8;

// A sequence's block table, oldest block first.
struct ContextTable {
  int num_blocks = 0;
  int num_newest_blocks = 1;  // at the end: not full yet, or about to be written; never dropped
  // [num_blocks], from Backend::Attention, without the entries of dropped blocks; read by
  // kLeastAttended only.
  std::span<const uint64_t> block_mass;
};

// Returns the index of the block to drop next; nullopt if num_blocks <= blocks_max or if the policy
// keeps all blocks. Between equally attended blocks it chooses the oldest.
std::optional<int> BlockToDrop(ContextPolicy policy, int blocks_max, const ContextTable& table);

}  // namespace kvgate::schedule
