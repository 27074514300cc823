#include "engine/schedule/prefix_offers.h"

#include <algorithm>
#include <new>
#include <span>

namespace kvgate::schedule {

using kernels::kKvBlockTokens;

PrefixOffers::PrefixOffers(kv::BlockHasher& hasher, tier::KvGroups& groups, WindowGroups& windows,
                           SingleFlight& single_flight, bool is_invariant)
    : hasher_(hasher),
      groups_(groups),
      windows_(windows),
      single_flight_(single_flight),
      is_invariant_(is_invariant) {}

void PrefixOffers::Enter(Sequence& sequence) {
  sequence.held.resize(groups_.size());
  sequence.root = hasher_.Root(sequence.salt);
}

void PrefixOffers::ComputeKeys(Sequence& sequence, int num_blocks) {
  while (static_cast<int>(sequence.keys.size()) < num_blocks) {
    const size_t block = sequence.keys.size();
    const auto tokens =
        std::span(sequence.tokens).subspan(block * kKvBlockTokens).first<kKvBlockTokens>();
    sequence.keys.push_back(hasher_.Next(sequence.ParentKey(static_cast<int>(block)), tokens));
  }
}

// Returns how many of the computed tokens have the same KV bits as after a prefill. With numerics
// that are not invariant, KV written by decoding differs and must not be hit.
int PrefixOffers::NumOfferable(const Sequence& sequence) const {
  return is_invariant_ ? sequence.num_computed
                       : std::min(sequence.num_computed, sequence.num_prompt_tokens);
}

void PrefixOffers::OfferFull(Sequence& sequence) {
  if (sequence.num_dropped_tokens > 0) return;
  const int num_full = NumOfferable(sequence) / kKvBlockTokens;
  try {
    ComputeKeys(sequence, num_full);
    for (int block = sequence.num_offered_blocks; block < num_full; ++block) {
      OfferBlock(sequence, block);
      sequence.num_offered_blocks = block + 1;
    }
  } catch (const std::bad_alloc&) {
  }
}

void PrefixOffers::OfferBlock(Sequence& sequence, int block) {
  const auto index = static_cast<size_t>(block);
  HeldBlocks& held = sequence.full();
  const BlockId holder = groups_.full().cache().InsertFull(
      sequence.ParentKey(block), sequence.keys[index],
      std::span(sequence.tokens).subspan(index * kKvBlockTokens, kKvBlockTokens),
      static_cast<uint32_t>(block), held.blocks[index].id());
  // Another sequence computed the same block with the same bits, so only one is kept.
  if (holder != held.blocks[index].id()) {
    held.blocks[index] = groups_.full().pool().Share(holder);
    held.block_table[index] = holder;
  }
  single_flight_.Forget(sequence, sequence.keys[index]);
}

void PrefixOffers::OfferComputed(Sequence& sequence, int num_before) {
  OfferFull(sequence);
  windows_.Offer(sequence, num_before / kKvBlockTokens, NumOfferable(sequence) / kKvBlockTokens);
}

void PrefixOffers::OfferPartial(Sequence& sequence) {
  if (NumOfferable(sequence) < sequence.num_computed || !groups_.shares_partial_blocks()) return;
  const int num_full = sequence.num_computed / kKvBlockTokens;
  const int num_rest = sequence.num_computed % kKvBlockTokens;
  if (num_rest == 0 || sequence.num_dropped_tokens > 0) return;
  // The partial block must follow blocks that the cache has.
  if (sequence.num_offered_blocks < num_full) return;
  const auto index = static_cast<size_t>(num_full);
  try {
    groups_.full().cache().InsertPartial(
        sequence.ParentKey(num_full),
        std::span(sequence.tokens).subspan(index * kKvBlockTokens, static_cast<size_t>(num_rest)),
        static_cast<uint32_t>(num_full), sequence.full().blocks[index].id());
  } catch (const std::bad_alloc&) {  // the next request computes those few tokens
  }
}

void PrefixOffers::Release(Sequence& sequence) {
  OfferPartial(sequence);
  single_flight_.Forget(sequence);
  for (HeldBlocks& held : sequence.held) held.Release();
  sequence.block_mass.clear();
  sequence.num_computed = 0;
  sequence.num_dropped_tokens = 0;
  sequence.num_offered_blocks = 0;
  sequence.copy_ticket = 0;
}

}  // namespace kvgate::schedule
