// Divides the KV memory between a model's KV groups, in blocks. Pure arithmetic.
//
//   the full group   as many blocks n as make the whole fit
//   a window         n x share, where share = blocks that two resume points of a conversation of
//                    half the context take, relative to its blocks in the full group: 4 (tail + 1)
//                    / (context in blocks); at least what one sequence needs while it prefills (its
//                    window twice); at most n, because a block that the full group lacks is of no
//                    use
//
// tail is WindowTailBlocks. Short windows thus leave nearly all memory to the full group, and many
// short prompts at once find about as much room for their windows as in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvgate::kv {

struct GroupShape {
  size_t block_bytes = 0;
  int window = 0;  // in tokens; 0 for the full group, which keeps all its blocks
};

struct MemorySplitArgs {
  uint64_t bytes = 0;
  int context_tokens = 0;  // of the longest sequence
  int step_tokens = 0;
  uint64_t num_blocks_max = 0;  // per group
};

// Returns the number of blocks of each group; the full group has the most. All are 0 if not even
// one block of each fits. REQUIRES: there is a full group.
std::vector<uint32_t> SplitKvMemory(std::span<const GroupShape> groups,
                                    const MemorySplitArgs& args);

// Returns the bytes of num_blocks blocks of the full group and the windows that go with them;
// args.bytes is ignored.
uint64_t KvMemoryFor(uint64_t num_blocks, std::span<const GroupShape> groups,
                     const MemorySplitArgs& args);

// Divides `bytes` in proportion to the memory of the groups' pools.
std::vector<uint64_t> SplitHostMemory(uint64_t bytes, std::span<const GroupShape> groups,
                                      std::span<const uint32_t> num_blocks);

}  // namespace kvgate::kv
