// Attention on all threads: splits a batch by sequence, KV head and rows, never along the sequence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/machine/host_memory.h"
#include "kernels/cpu/machine/thread_pool.h"

namespace kvgate::kernels::cpu {

// Returns the byte offset of K of one layer and KV head inside a block; V follows it.
size_t KvHeadOffset(const KvShape& shape, int layer, int kv_head);

// Owns the scratch memory of its calls; one call at a time.
class ParallelAttention {
 public:
  ParallelAttention(int64_t target, machine::ThreadPool& pool);
  // As Backend::Attention.
  void Run(const float* q, std::span<const SequenceRows> sequences, int layer, const KvArena& arena,
           const AttentionShape& shape, float* out);

 private:
  const AttentionKernels kernels_;
  machine::ThreadPool& pool_;
  std::vector<AttentionPart> parts_;
  machine::HostMemory thread_scratch_;
  size_t scratch_floats_ = 0;        // per thread
  std::vector<TileMass> tile_mass_;  // of all threads; empty until a block_mass is requested
};

}  // namespace kvgate::kernels::cpu
