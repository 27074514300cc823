// How the KV memory is divided between the groups of a model, in blocks. Pure arithmetic.
//
//   group 0     as many blocks n as make the whole fit
//   a window    n x share, where share = what two places of a conversation of half the context
//               take, to what that conversation takes of group 0: 4 (tail + 1) / (context in
//               blocks); at least what one sequence needs while it prefills, its window twice;
//               never more than n, since a block that group 0 has not is of no use
//
// tail is WindowTailBlocks. So short windows leave nearly all memory to group 0, and many short
// prompts at once find about as many windows as they find room in group 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvgate::kv {

struct GroupShape {
  size_t block_bytes = 0;
  int window = 0;  // of group 0 ignored: its blocks are kept from the first on
};

struct MemorySplitArgs {
  uint64_t bytes = 0;
  int context_tokens = 0;  // of the longest sequence
  int step_tokens = 0;
  uint64_t num_blocks_max = 0;  // of a group
};

// Blocks for each group, the first of them the largest count; 0 each where there is not even one.
std::vector<uint32_t> SplitKvMemory(std::span<const GroupShape> groups,
                                    const MemorySplitArgs& args);

// What so many blocks of group 0 take together with the windows beside them; args.bytes is ignored.
uint64_t KvMemoryFor(uint64_t num_blocks, std::span<const GroupShape> groups,
                     const MemorySplitArgs& args);

// `bytes` divided in the proportion of the groups' memory.
std::vector<uint64_t> SplitHostMemory(uint64_t bytes, std::span<const GroupShape> groups,
                                      std::span<const uint32_t> num_blocks);

}  // namespace kvgate::kv
