#include "kernels/cpu/attention.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace kvgate::kernels::cpu {
namespace {

// How many heads of a group and tokens of a sequence one part covers.
struct PartSize {
  int num_heads;
  int num_tokens;  // a power of two up to kKvBlockTokens; parts start at its multiples
};

// Large parts amortise the conversion of a tile over more rows, but there should be enough parts
// for all threads. The choice does not affect the result.
PartSize ChoosePartSize(int heads_per_kv_head, int num_kv_heads, int num_rows, int num_threads) {
  PartSize size{.num_heads = std::min(heads_per_kv_head, kAttentionRowsMax), .num_tokens = 1};
  const auto rows = static_cast<unsigned>(kAttentionRowsMax / size.num_heads);
  size.num_tokens = std::min(static_cast<int>(std::bit_floor(rows)), kKvBlockTokens);
  const int wanted = 2 * num_threads;
  const auto num_parts = [&] {
    return (num_rows + size.num_tokens - 1) / size.num_tokens * num_kv_heads *
           ((heads_per_kv_head + size.num_heads - 1) / size.num_heads);
  };
  while (size.num_tokens > 1 && num_parts() < wanted) size.num_tokens /= 2;
  // Splitting a group reads its KV twice, so it is done only if threads would otherwise be idle.
  while (size.num_heads > 1 && num_parts() < num_threads) {
    size.num_heads = (size.num_heads + 1) / 2;
  }
  return size;
}

size_t TilesFor(int num_tokens) {
  return static_cast<size_t>(num_tokens + kKvBlockTokens - 1) / kKvBlockTokens;
}

}  // namespace

size_t KvHeadOffset(const KvShape& shape, int layer, int kv_head) {
  const size_t index = static_cast<size_t>(layer) * shape.num_kv_heads + kv_head;
  return index * 2 * DTypeBytes(shape.dtype, static_cast<size_t>(shape.head_dim) * kKvBlockTokens);
}

ParallelAttention::ParallelAttention(int64_t target, machine::ThreadPool& pool)
    : kernels_(AttentionKernelsFor(target)), pool_(pool) {}

void ParallelAttention::Run(const float* q, std::span<const SequenceRows> sequences, int layer,
                            const KvArena& arena, const AttentionShape& shape, float* out) {
  const KvShape& kv = arena.shape();
  const size_t floats = AttentionScratchFloats(kv.head_dim);
  if (scratch_floats_ < floats) {
    auto grown = machine::HostMemory::Allocate(floats * sizeof(float) * pool_.num_threads(),
                                               "attention scratch");
    // Callers of a step handle bad_alloc anyway, because the vectors here can throw it too.
    if (!grown) throw std::bad_alloc();
    thread_scratch_ = std::move(*grown);
    scratch_floats_ = floats;
  }
  const int group = shape.num_heads / kv.num_kv_heads;
  const int num_rows = sequences.back().first_row + sequences.back().num_rows;
  const PartSize size = ChoosePartSize(group, kv.num_kv_heads, num_rows, pool_.num_threads());
  const int row_stride = shape.num_heads * kv.head_dim;

  parts_.clear();
  size_t mass_tiles = 0;  // of the longest sequence with a block_mass
  for (const SequenceRows& sequence : sequences) {
    const int end = sequence.first_position + sequence.num_rows;
    if (sequence.block_mass != nullptr) mass_tiles = std::max(mass_tiles, TilesFor(end));
    for (int position = sequence.first_position; position < end;) {
      // Parts end at multiples of num_tokens, so that all their rows end in the same KV block.
      const int next = std::min((position / size.num_tokens + 1) * size.num_tokens, end);
      const ptrdiff_t row = sequence.first_row + (position - sequence.first_position);
      for (int head = 0; head < shape.num_heads;) {
        const int kv_head = head / group;
        const int heads = std::min(size.num_heads, (kv_head + 1) * group - head);
        parts_.push_back({.q = q + row * row_stride,
                          .out = out + row * row_stride,
                          .row_stride = row_stride,
                          .head_dim = kv.head_dim,
                          .head_begin = head,
                          .num_heads_here = heads,
                          .num_tokens = next - position,
                          .first_position = position,
                          .shape = shape,
                          .dtype = kv.dtype,
                          .block_table = sequence.block_table,
                          .arena = &arena,
                          .block_offset = KvHeadOffset(kv, layer, kv_head),
                          .block_mass = sequence.block_mass});
        head += heads;
      }
      position = next;
    }
  }
  // Longest parts first: a long part started last would make the other threads wait.
  std::stable_sort(parts_.begin(), parts_.end(), [](const auto& a, const auto& b) {
    return a.first_position > b.first_position;
  });
  const size_t thread_mass = mass_tiles * kAttentionRowsMax;
  tile_mass_.resize(std::max(tile_mass_.size(), thread_mass * pool_.num_threads()));
  auto* scratch = reinterpret_cast<float*>(thread_scratch_.data());
  pool_.ForEach(static_cast<int64_t>(parts_.size()), [&](int64_t index, int thread) {
    AttentionPart part = parts_[index];
    part.scratch = scratch + scratch_floats_ * thread;
    part.tile_mass = tile_mass_.data() + thread_mass * thread;
    kernels_.attend(part);
  });
}

}  // namespace kvgate::kernels::cpu
