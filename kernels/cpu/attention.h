// Attention on all threads: cuts a batch by sequence, KV head and rows, never along the sequence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/host_memory.h"
#include "kernels/cpu/thread_pool.h"

namespace kvgate::kernels::cpu {

// Where K of one layer and KV head begins inside a block, in bytes; V follows it.
size_t KvHeadOffset(const KvShape& shape, int layer, int kv_head);

// Owns the scratch of its calls; one call at a time.
class ParallelAttention {
 public:
  ParallelAttention(int64_t target, ThreadPool& pool);
  // As Backend::Attention.
  void Run(const float* q, std::span<const SequenceRows> sequences, int layer, const KvArena& arena,
           const AttentionShape& shape, float* out);

 private:
  const AttentionKernels kernels_;
  ThreadPool& pool_;
  std::vector<AttentionPart> parts_;
  HostMemory thread_scratch_;
  size_t scratch_floats_ = 0;        // per thread
  std::vector<TileMass> tile_mass_;  // of all threads; empty until a mass is asked for
};

}  // namespace kvgate::kernels::cpu
