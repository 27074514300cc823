// DeviceAttention: KV in device memory, and attention over it.
//
// A KV block of 32 tokens is one tile. Splits of kSplitBlocks blocks, at absolute positions, are
// summed separately (running maximum, sum, weighted values) and then joined in order. For a decode
// row, different thread blocks compute its splits and a second kernel joins them; prefill processes
// the same splits one after the other. Both use the same functions, so the bits are equal
// (invariant, see kernels/backend.h). Query heads that share a KV head are rows of one matrix
// instruction.
//
// Numerics. A row's q is scaled by a power of two and split into 16-bit parts, K and V are used as
// stored, sums are f32.
//   f16 KV: q and probabilities in two f16 (22 bits)
//   fp8_e4m3 KV: as f16, which represents all its values
//   bf16 KV: q in three bf16 (24 bits), probabilities in two (16 bits)
//   q8_0, q4_0: quants are exact; q in two f16, probabilities times V's scales in two bf16
//   f32 KV: plain f32 arithmetic
// Scores of any magnitude keep their precision. With probabilities in a single f16, p * v would
// need a third fewer matrix instructions, but a result would only be within 2^-12 of the sum of its
// terms' magnitudes: an error of several 1e-3 of a row if values 1000 times larger than the others
// cancel.
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "kernels/backend.h"
#include "kernels/cuda/device/command_stream.h"

namespace kvgate::kernels::cuda::attention {

inline constexpr int kSplitBlocks = 8;  // 256 tokens

class DeviceAttention {
 public:
  static Result<std::unique_ptr<DeviceAttention>> Open(int num_multiprocessors,
                                                       device::CommandStream& stream);
  virtual ~DeviceAttention() = default;

  // These are the operations of Backend with the same names.
  virtual Result<std::unique_ptr<KvArena>> AllocateKv(const KvShape& shape,
                                                      uint32_t num_blocks) = 0;
  virtual void CopyKvBlock(KvArena& arena, BlockId from, BlockId to, int num_tokens) = 0;
  virtual void PoisonKvBlock(KvArena& arena, BlockId id) = 0;
  virtual void StoreKv(const float* k, const float* v, std::span<const SequenceRows> sequences,
                       int layer, KvArena& arena) = 0;
  virtual void Run(const float* q, std::span<const SequenceRows> sequences, int layer,
                   const KvArena& arena, const AttentionShape& shape, float* out) = 0;
  // Call after synchronizing the stream: adds the masses of all calls since the last delivery to
  // the sequences' block_mass.
  virtual void DeliverBlockMasses() = 0;
};

}  // namespace kvgate::kernels::cuda::attention
