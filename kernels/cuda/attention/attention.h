// DeviceAttention: KV in device memory, and attention over it.
//
// A KV block of 32 tokens is one tile. Splits of kSplitBlocks blocks, at absolute positions, are
// summed each for itself (running maximum, sum, weighted values) and then joined in order. A decode
// row has its splits on different thread blocks and joins them in a second kernel; prefill takes
// the same splits in turn. The formulas are the same functions, so the bits are (kernels/backend.h,
// invariant). Query heads that share a KV head are rows of one matrix instruction.
//
// Numbers. A row's q is scaled by a power of two and split into 16-bit parts, K and V go in as
// stored, sums are f32.
//   f16 KV: q and probabilities in two f16 (22 bits)
//   fp8_e4m3 KV: as f16, which holds every value of it
//   bf16 KV: q in three bf16 (24 bits), probabilities in two (16 bits)
//   q8_0, q4_0: quants as they are, exact; q in two f16, probabilities times V's scales in two bf16
//   f32 KV: plain f32 arithmetic
// Scores of any size keep their digits. With probabilities in one f16 a third fewer matrix
// instructions would do for p * v, and a result would be within 2^-12 of the sum of its terms'
// magnitudes: several 1e-3 of a row where values 1000 times the others cancel.
#pragma once

#include <memory>
#include <span>

#include <kvgate/result.h>

#include "kernels/backend.h"
#include "kernels/cuda/command_stream.h"

namespace kvgate::kernels::cuda {

inline constexpr int kSplitBlocks = 8;  // 256 tokens

class DeviceAttention {
 public:
  static Result<std::unique_ptr<DeviceAttention>> Open(int num_multiprocessors,
                                                       CommandStream& stream);
  virtual ~DeviceAttention() = default;

  // As the operations of Backend with these names.
  virtual Result<std::unique_ptr<KvArena>> AllocateKv(const KvShape& shape,
                                                      uint32_t num_blocks) = 0;
  virtual void CopyKvBlock(KvArena& arena, BlockId from, BlockId to, int num_tokens) = 0;
  virtual void PoisonKvBlock(KvArena& arena, BlockId id) = 0;
  virtual void StoreKv(const float* k, const float* v, std::span<const SequenceRows> sequences,
                       int layer, KvArena& arena) = 0;
  virtual void Run(const float* q, std::span<const SequenceRows> sequences, int layer,
                   const KvArena& arena, const AttentionShape& shape, float* out) = 0;
  // After the stream was synchronized: adds the masses of the calls since the last time to the
  // sequences' block_mass.
  virtual void DeliverBlockMasses() = 0;
};

}  // namespace kvgate::kernels::cuda
