#include "engine/pinned_prefixes.h"

#include <algorithm>
#include <span>
#include <utility>

#include "engine/kv/window_cache.h"
#include "kernels/backend.h"

namespace kvgate::engine {
namespace {

using kernels::kKvBlockTokens;

// The limit of prefixes that callers hinted at; each costs a pass over its blocks when one is
// added.
constexpr size_t kHintedPrefixesMax = 256;

void Raise(std::span<const kv::BlockKey> keys, int to, kv::PriorityMap& priorities) {
  for (const kv::BlockKey& key : keys) {
    int& priority = priorities[key.hash];
    priority = std::max(priority, to);
  }
}

}  // namespace

bool PinnedPrefixes::Set(const PinnedPrefix& pin) {
  const size_t num_blocks = pin.tokens.size() / kKvBlockTokens;
  if (num_blocks == 0) return false;
  Prefix prefix{.keys = {}, .priority = pin.priority, .until = pin.until};
  kv::BlockKey parent = hasher_.Root(pin.cache_salt);
  for (size_t block = 0; block < num_blocks; ++block) {
    parent = hasher_.Next(parent, std::span<const TokenId>(pin.tokens)
                                      .subspan(block * kKvBlockTokens)
                                      .first<kKvBlockTokens>());
    prefix.keys.push_back(parent);
  }
  if (pin.is_hint) {
    const auto known = prefixes_.find(parent.hash);
    if (known != prefixes_.end() && known->second.until >= pin.until) return false;
    if (known == prefixes_.end() && prefixes_.size() >= kHintedPrefixesMax) return false;
  }
  if (prefix.priority > 0) {
    prefixes_.insert_or_assign(parent.hash, std::move(prefix));
  } else {
    prefixes_.erase(parent.hash);
  }
  return true;
}

bool PinnedPrefixes::EndExpired(std::chrono::steady_clock::time_point now) {
  return std::erase_if(prefixes_, [&](const auto& item) { return item.second.until <= now; }) > 0;
}

// Includes one block more than a window needs: a prompt that ends exactly with the prefix resumes
// from its last block but one, because its last token must be computed.
kv::PriorityMap PinnedPrefixes::Priorities(int window) const {
  kv::PriorityMap priorities;
  const auto tail = static_cast<size_t>(kv::WindowTailBlocks(window)) + 1;
  for (const auto& [last, prefix] : prefixes_) {
    const size_t num_blocks = prefix.keys.size();
    const size_t first = window == 0 ? 0 : num_blocks - std::min(num_blocks, tail);
    Raise(std::span(prefix.keys).subspan(first), prefix.priority, priorities);
  }
  return priorities;
}

}  // namespace kvgate::engine
