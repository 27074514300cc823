#include "kernels/cpu/quant_kv.h"

#include <cstring>

namespace kvgate::kernels::cpu {
namespace {

constexpr size_t kScaleBytes = sizeof(QuantBlockQ8_0::scale);

template <typename QuantBlock>
void StoreToken(int head_dim, const float* k, const float* v, int slot, std::byte* head) {
  constexpr size_t kQuantBytes = sizeof(QuantBlock::quants);
  constexpr size_t kGroupBytes = sizeof(QuantBlock) * kKvBlockTokens;
  const int num_groups = head_dim / QuantBlock::kElements;
  for (int group = 0; group < num_groups; ++group) {
    std::byte* keys = head + group * kGroupBytes;
    std::byte* values = keys + num_groups * kGroupBytes;
    QuantBlock block;
    QuantizeBlock(k + group * QuantBlock::kElements, &block);
    std::memcpy(keys + slot * kScaleBytes, &block.scale, kScaleBytes);
    std::byte* quants = keys + kKvBlockTokens * kScaleBytes + slot;
    for (size_t i = 0; i < kQuantBytes; ++i) {
      quants[i * kKvBlockTokens] = static_cast<std::byte>(block.quants[i]);
    }
    QuantizeBlock(v + group * QuantBlock::kElements, &block);
    std::memcpy(values + slot * kScaleBytes, &block.scale, kScaleBytes);
    std::memcpy(values + kKvBlockTokens * kScaleBytes + slot * kQuantBytes, block.quants,
                kQuantBytes);
  }
}

}  // namespace

void StoreQuantToken(const KvShape& shape, const float* k, const float* v, int slot,
                     std::byte* head) {
  if (shape.dtype == DType::kQ8_0) {
    StoreToken<QuantBlockQ8_0>(shape.head_dim, k, v, slot, head);
  } else {
    StoreToken<QuantBlockQ4_0>(shape.head_dim, k, v, slot, head);
  }
}

void CopyQuantTokens(const KvShape& shape, const std::byte* from, std::byte* to, int num_tokens) {
  const auto elements = static_cast<size_t>(DTypeElements(shape.dtype));
  const size_t quant_bytes = DTypeBytes(shape.dtype, elements) - kScaleBytes;
  const size_t num_groups = shape.head_dim / elements;  // for K; V has as many
  const size_t num_heads = static_cast<size_t>(shape.num_layers) * shape.num_kv_heads;
  for (size_t group = 0; group < num_heads * 2 * num_groups; ++group) {
    const bool is_key = group % (2 * num_groups) < num_groups;
    std::memcpy(to, from, num_tokens * kScaleBytes);
    from += kKvBlockTokens * kScaleBytes;
    to += kKvBlockTokens * kScaleBytes;
    if (is_key) {
      for (size_t i = 0; i < quant_bytes; ++i) {
        std::memcpy(to + i * kKvBlockTokens, from + i * kKvBlockTokens, num_tokens);
      }
    } else {
      std::memcpy(to, from, num_tokens * quant_bytes);
    }
    from += kKvBlockTokens * quant_bytes;
    to += kKvBlockTokens * quant_bytes;
  }
}

}  // namespace kvgate::kernels::cpu
