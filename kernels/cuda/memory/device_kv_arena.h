// DeviceKvArena: KV blocks in device memory, and the order of the bytes inside one.
//
// A block holds, per layer and KV head, the K of its 32 tokens and behind it the V. Either is,
// where the dtype is not quantized, [kKvBlockTokens][head_dim]; where it is quantized, the
// scales [head_dim / 32][kKvBlockTokens] (f16) and then the quants [kKvBlockTokens][bytes of a
// row]. So a token's row is consecutive, which is what loading a tile in pieces of 16 bytes wants,
// and every byte is one token's.
#pragma once

#include <cstddef>
#include <memory>

#include <kvgate/result.h>

#include "kernels/backend.h"
#include "kernels/cuda/command_stream.h"
#include "kernels/cuda/device_memory.h"

namespace kvgate::kernels::cuda {

// Where the bytes of one block lie; trivially copyable, for kernels' use too.
struct KvLayout {
  std::byte* base = nullptr;
  size_t block_bytes = 0;
  int head_dim = 0;
  int num_kv_heads = 0;
  int num_layers = 0;
  int scale_bytes = 0;  // of K, or of V, of one head; 0 where the dtype is not quantized
  int row_bytes = 0;    // of one token's K without its scales
  DType dtype = DType::kF16;

  // Of K, or of V, of one layer and head.
  constexpr int part_bytes() const { return scale_bytes + row_bytes * kKvBlockTokens; }
  // Where K of a layer and head begins in a block; V follows it.
  constexpr size_t head_offset(int layer, int kv_head) const {
    return (static_cast<size_t>(layer) * static_cast<size_t>(num_kv_heads) +
            static_cast<size_t>(kv_head)) *
           2 * static_cast<size_t>(part_bytes());
  }
};

class DeviceKvArena final : public KvArena {
 public:
  // The bytes are unspecified; NaN where KVGATE_DEBUG is set. kOverloaded: the device has not so
  // much memory left. The stream outlives the arena, which ends when what was noted has run.
  static Result<std::unique_ptr<KvArena>> Allocate(const KvShape& shape, uint32_t num_blocks,
                                                   CommandStream& stream);
  ~DeviceKvArena() override;

  KvLayout layout() const;

 private:
  DeviceKvArena(const KvShape& shape, uint32_t num_blocks, DeviceMemory memory,
                CommandStream& stream);

  DeviceMemory memory_;
  CommandStream& stream_;
};

}  // namespace kvgate::kernels::cuda
