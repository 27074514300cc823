// DeviceKvArena: KV blocks in device memory, and the order of the bytes inside one.
//
// A block holds, per layer and KV head, the K of its 32 tokens followed by the V. Each of them is
// [kKvBlockTokens][head_dim] if the dtype is not quantized. If it is quantized, each consists of
// the scales [head_dim / 32][kKvBlockTokens] (f16) and then the quants [kKvBlockTokens][bytes of a
// row]. So a token's row is contiguous, which suits loading a tile in 16-byte pieces, and every
// byte belongs to one token.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"
#include "kernels/backend.h"
#include "kernels/cuda/device/command_stream.h"
#include "kernels/cuda/memory/device_memory.h"

namespace kvgate::kernels::cuda::memory {

// The layout of one block; trivially copyable, because kernels use it too.
struct KvLayout {
  std::byte* base = nullptr;
  size_t block_bytes = 0;
  int head_dim = 0;
  int num_kv_heads = 0;
  int num_layers = 0;
  int scale_bytes = 0;  // for K, or for V, of one head; 0 if not quantized
  int row_bytes = 0;    // one token's K without its scales
  DType dtype = DType::kF16;

  // Returns the bytes of K, or of V, of one layer and head.
  constexpr int part_bytes() const { return scale_bytes + row_bytes * kKvBlockTokens; }
  // Returns the offset of K of a layer and head in a block; V follows it.
  constexpr size_t head_offset(int layer, int kv_head) const {
    return (static_cast<size_t>(layer) * static_cast<size_t>(num_kv_heads) +
            static_cast<size_t>(kv_head)) *
           2 * static_cast<size_t>(part_bytes());
  }
};

class DeviceKvArena final : public KvArena {
 public:
  // The content is unspecified; NaN if KVGATE_DEBUG is set. Returns kOverloaded if there is not
  // enough device memory. The stream must outlive the arena, whose destructor waits for all
  // recorded commands.
  static Result<std::unique_ptr<KvArena>> Allocate(const KvShape& shape, uint32_t num_blocks,
                                                   device::CommandStream& stream);
  ~DeviceKvArena() override;

  KvLayout layout() const;

 private:
  DeviceKvArena(const KvShape& shape, uint32_t num_blocks, DeviceMemory memory,
                device::CommandStream& stream);

  DeviceMemory memory_;
  device::CommandStream& stream_;
};

}  // namespace kvgate::kernels::cuda::memory
