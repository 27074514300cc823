#include "engine/kv/prefix_cache.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"

namespace kvgate::kv {

using kernels::kKvBlockTokens;

PrefixMatch::~PrefixMatch() {
  partial.Reset();
  ReleaseLastToFirst(blocks);
}

PrefixCache::PrefixCache(BlockPool& pool) : BlockCache(pool), entries_(pool.num_blocks()) {}

PrefixMatch PrefixCache::Match(const BlockKey& root, std::span<const BlockKey> keys,
                               std::span<const TokenId> tokens) {
  PrefixMatch match;
  const BlockKey* parent = &root;
  for (size_t i = 0; i < keys.size() && (i + 1) * kKvBlockTokens <= tokens.size(); ++i) {
    const auto found = full_.find(keys[i].hash);
    if (found == full_.end()) break;
    if (entries_[found->second.value].key.digest != keys[i].digest) {
      ++num_digest_mismatches_;
      break;
    }
    match.blocks.push_back(pool_.Share(found->second));
    parent = &keys[i];
  }
  MatchPartial(*parent, tokens.subspan(match.blocks.size() * kKvBlockTokens), match);
  return match;
}

size_t PrefixCache::CountLeading(std::span<const BlockKey> keys) const {
  size_t count = 0;
  while (count < keys.size() && full_.contains(keys[count].hash)) ++count;
  return count;
}

void PrefixCache::CountUse(const PrefixMatch& match) {
  for (const BlockRef& block : match.blocks) pool_.CountUse(block.id());
}

void PrefixCache::SetPriorities(PriorityMap priorities) {
  priorities_ = std::move(priorities);
  for (const auto& [hash, id] : full_) pool_.SetPriority(id, PriorityOf(hash));
}

void PrefixCache::MatchPartial(const BlockKey& parent, std::span<const TokenId> tokens,
                               PrefixMatch& match) {
  const auto siblings = children_.find(parent.hash);
  if (siblings == children_.end() || tokens.empty()) return;
  const BlockId* best = nullptr;
  for (const BlockId& id : siblings->second) {
    const Entry& entry = entries_[id.value];
    if (entry.parent.digest != parent.digest) continue;  // another prefix with the same hash
    const auto held = std::span(entry.tokens).first(entry.num_tokens);
    const auto [end, unused] = std::ranges::mismatch(held, tokens);
    const int num_equal = static_cast<int>(end - held.begin());
    if (num_equal > match.num_partial_tokens) {
      match.num_partial_tokens = num_equal;
      best = &id;
    }
  }
  if (best != nullptr) match.partial = pool_.Share(*best);
}

bool PrefixCache::HasParent(const BlockKey& parent, uint32_t depth) const {
  if (depth == 0) return true;
  const auto found = full_.find(parent.hash);
  return found != full_.end() && entries_[found->second.value].key.digest == parent.digest;
}

BlockId PrefixCache::InsertFull(const BlockKey& parent, const BlockKey& key,
                                std::span<const TokenId> tokens, uint32_t depth, BlockId block) {
  KVGATE_CHECK(tokens.size() == kKvBlockTokens, "tokens of a full block");
  KVGATE_CHECK(!entries_[block.value].full, "a block is inserted twice");
  if (entries_[block.value].present) {  // it was offered as a partial block before
    Forget(block);
    pool_.UnmarkCached(block);
  }
  const auto found = full_.find(key.hash);
  if (found != full_.end()) {
    if (entries_[found->second.value].key.digest == key.digest) return found->second;
    ++num_digest_mismatches_;
    return block;
  }
  if (!HasParent(parent, depth)) return block;
  Entry entry{.present = true,
              .full = true,
              .key = key,
              .parent = parent,
              .depth = depth,
              .num_tokens = kKvBlockTokens};
  std::ranges::copy(tokens, entry.tokens.begin());
  Add(std::move(entry), block);
  return block;
}

void PrefixCache::InsertPartial(const BlockKey& parent, std::span<const TokenId> tokens,
                                uint32_t depth, BlockId block) {
  KVGATE_CHECK(tokens.size() < kKvBlockTokens, "tokens of a partial block");
  Entry& offered = entries_[block.value];
  if (tokens.empty() || offered.full || !HasParent(parent, depth)) return;
  if (offered.present) {  // offered before, with fewer tokens
    std::ranges::copy(tokens, offered.tokens.begin());
    offered.num_tokens = static_cast<uint8_t>(tokens.size());
    return;
  }
  if (HasContinuation(parent, tokens)) return;
  Entry entry{.present = true,
              .full = false,
              .key = {},
              .parent = parent,
              .depth = depth,
              .num_tokens = static_cast<uint8_t>(tokens.size())};
  std::ranges::copy(tokens, entry.tokens.begin());
  Add(std::move(entry), block);
}

// Returns true if some block behind `parent` begins with all of `tokens`.
bool PrefixCache::HasContinuation(const BlockKey& parent, std::span<const TokenId> tokens) const {
  const auto siblings = children_.find(parent.hash);
  if (siblings == children_.end()) return false;
  return std::ranges::any_of(siblings->second, [&](BlockId id) {
    const Entry& entry = entries_[id.value];
    const auto held = std::span(entry.tokens).first(entry.num_tokens);
    return entry.parent.digest == parent.digest && held.size() >= tokens.size() &&
           std::ranges::equal(held.first(tokens.size()), tokens);
  });
}

// If memory runs out, the block is left in none of the indices.
void PrefixCache::Add(Entry entry, BlockId block) {
  const auto siblings = children_.try_emplace(entry.parent.hash).first;
  try {
    if (entry.full) full_.emplace(entry.key.hash, block);
    siblings->second.push_back(block);
  } catch (const std::bad_alloc&) {
    if (entry.full) full_.erase(entry.key.hash);
    if (siblings->second.empty()) children_.erase(siblings);
    throw;
  }
  if (entry.full) pool_.SetPriority(block, PriorityOf(entry.key.hash));
  entries_[block.value] = std::move(entry);
  pool_.MarkCached(block);
  ++num_entries_;
}

void PrefixCache::Forget(BlockId id) {
  Entry& entry = entries_[id.value];
  if (entry.full) full_.erase(entry.key.hash);
  const auto siblings = children_.find(entry.parent.hash);
  std::erase(siblings->second, id);
  if (siblings->second.empty()) children_.erase(siblings);
  entry = Entry{};
  --num_entries_;
}

void PrefixCache::OnEvict(BlockId id) {
  const Entry& entry = entries_[id.value];
  KVGATE_CHECK(entry.present, "a block is evicted that the cache does not know");
  if (entry.full && demote_) demote_(entry.key, id, PriorityOf(entry.key.hash));
  Forget(id);
}

void PrefixCache::Clear() {
  for (const BlockId id : pool_.EvictionOrder()) {
    Forget(id);
    pool_.UnmarkCached(id);
  }
}

void PrefixCache::CheckIntegrity() const {
  size_t num_present = 0;
  size_t num_full = 0;
  for (uint32_t index = 0; index < entries_.size(); ++index) {
    const Entry& entry = entries_[index];
    KVGATE_CHECK(entry.present == pool_.is_marked(BlockId{index}), "cache and pool differ");
    if (!entry.present) continue;
    ++num_present;
    KVGATE_CHECK(HasParent(entry.parent, entry.depth), "a block is cached without its parent");
    if (entry.full) {
      ++num_full;
      const auto found = full_.find(entry.key.hash);
      KVGATE_CHECK(found != full_.end() && found->second.value == index, "hash index");
    }
    const auto siblings = children_.find(entry.parent.hash);
    KVGATE_CHECK(
        siblings != children_.end() && std::ranges::count(siblings->second, BlockId{index}) == 1,
        "index of children");
  }
  KVGATE_CHECK(num_present == num_entries_ && num_full == full_.size(), "number of entries");
  size_t num_children = 0;
  for (const auto& [hash, ids] : children_) num_children += ids.size();
  KVGATE_CHECK(num_children == num_entries_, "number of children");
}

}  // namespace kvgate::kv
