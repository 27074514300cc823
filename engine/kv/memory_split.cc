#include "engine/kv/memory_split.h"

#include <algorithm>

#include "base/check.h"
#include "engine/kv/window_cache.h"

namespace kvgate::kv {
namespace {

uint64_t BlocksFor(int num_tokens) {
  const int block_tokens = kernels::kKvBlockTokens;
  return static_cast<uint64_t>((num_tokens + block_tokens - 1) / block_tokens);
}

// Returns the number of blocks of a group beside n blocks of the full one.
uint64_t BlocksBeside(uint64_t n, int window, const MemorySplitArgs& args) {
  if (window == 0) return n;
  const auto tail = static_cast<uint64_t>(WindowTailBlocks(window));
  const uint64_t alone = 2 * tail + BlocksFor(args.step_tokens) + 2;
  const uint64_t context = std::max<uint64_t>(1, BlocksFor(args.context_tokens));
  const uint64_t shared = (n * 4 * (tail + 1) + context - 1) / context;
  return std::min(n, std::max(alone, shared));
}

std::vector<uint32_t> CountBlocks(uint64_t n, std::span<const GroupShape> groups,
                                  const MemorySplitArgs& args) {
  std::vector<uint32_t> blocks;
  for (const GroupShape& group : groups) {
    blocks.push_back(static_cast<uint32_t>(BlocksBeside(n, group.window, args)));
  }
  return blocks;
}

}  // namespace

uint64_t KvMemoryFor(uint64_t num_blocks, std::span<const GroupShape> groups,
                     const MemorySplitArgs& args) {
  uint64_t bytes = 0;
  const std::vector<uint32_t> blocks = CountBlocks(num_blocks, groups, args);
  for (size_t i = 0; i < groups.size(); ++i) bytes += blocks[i] * groups[i].block_bytes;
  return bytes;
}

std::vector<uint32_t> SplitKvMemory(std::span<const GroupShape> groups,
                                    const MemorySplitArgs& args) {
  KVGATE_CHECK(!groups.empty() && groups[kFullGroup].block_bytes > 0, "KV groups");
  // With more blocks of the full group the others never get fewer, so a binary search finds the
  // largest n.
  uint64_t low = 0;
  uint64_t high = std::min(args.bytes / groups[kFullGroup].block_bytes, args.num_blocks_max);
  while (low < high) {
    const uint64_t middle = (low + high + 1) / 2;
    if (KvMemoryFor(middle, groups, args) <= args.bytes) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return CountBlocks(low, groups, args);
}

std::vector<uint64_t> SplitHostMemory(uint64_t bytes, std::span<const GroupShape> groups,
                                      std::span<const uint32_t> num_blocks) {
  std::vector<double> parts;
  double all = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    parts.push_back(static_cast<double>(groups[i].block_bytes) * num_blocks[i]);
    all += parts.back();
  }
  std::vector<uint64_t> shares(groups.size());
  shares[kFullGroup] = bytes;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (i == kFullGroup) continue;  // it gets the rest
    shares[i] = static_cast<uint64_t>(static_cast<double>(bytes) * (parts[i] / all));
    shares[kFullGroup] -= shares[i];
  }
  return shares;
}

}  // namespace kvgate::kv
