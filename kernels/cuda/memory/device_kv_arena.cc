#include "kernels/cuda/memory/device_kv_arena.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

namespace kvgate::kernels::cuda::memory {

Result<std::unique_ptr<KvArena>> DeviceKvArena::Allocate(const KvShape& shape, uint32_t num_blocks,
                                                         device::CommandStream& stream) {
  const size_t block_bytes = shape.block_bytes();
  if (block_bytes > std::numeric_limits<size_t>::max() / num_blocks) {
    return MakeError(ErrorCode::kOverloaded, "kernels.cuda",
                     fmt::format("allocate {} KV blocks of {} bytes: more than can be addressed",
                                 num_blocks, block_bytes));
  }
  KVGATE_TRY(DeviceMemory memory, DeviceMemory::Allocate(block_bytes * num_blocks, "KV arena"));
  return std::unique_ptr<KvArena>(new DeviceKvArena(shape, num_blocks, std::move(memory), stream));
}

DeviceKvArena::DeviceKvArena(const KvShape& shape, uint32_t num_blocks, DeviceMemory memory,
                             device::CommandStream& stream)
    : KvArena(shape, num_blocks), memory_(std::move(memory)), stream_(stream) {
  base_ = memory_.data();
#if KVGATE_DEBUG
  stream_.Fill(base_, 0xff, memory_.size());  // NaN in every KV dtype
#endif
}

DeviceKvArena::~DeviceKvArena() { stream_.Synchronize(); }

KvLayout DeviceKvArena::layout() const {
  const int group = DTypeElements(shape().dtype);
  const auto row_bytes =
      static_cast<int>(DTypeBytes(shape().dtype, static_cast<size_t>(shape().head_dim)));
  const int scales = group == 1 ? 0 : shape().head_dim / group;  // per token
  constexpr int kScaleBytes = sizeof(QuantBlockQ8_0::scale);
  return {.base = base_,
          .block_bytes = block_bytes(),
          .head_dim = shape().head_dim,
          .num_kv_heads = shape().num_kv_heads,
          .num_layers = shape().num_layers,
          .scale_bytes = scales * kScaleBytes * kKvBlockTokens,
          .row_bytes = row_bytes - scales * kScaleBytes,
          .dtype = shape().dtype};
}

}  // namespace kvgate::kernels::cuda::memory
