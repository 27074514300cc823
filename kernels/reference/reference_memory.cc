#include "kernels/reference/reference_memory.h"

#include <cstring>
#include <new>

#include <kvgate/check.h>

namespace kvgate::kernels::reference {
namespace {

template <typename T>
T Load(const std::byte* data, size_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void Store(std::byte* data, size_t index, T value) {
  std::memcpy(data + index * sizeof(T), &value, sizeof(T));
}

// Bytes of the arena, or bad_alloc where the product does not fit.
size_t ArenaBytes(const KvShape& shape, uint32_t num_blocks) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(shape.block_bytes(), static_cast<size_t>(num_blocks), &bytes)) {
    throw std::bad_alloc();
  }
  return bytes;
}

}  // namespace

void DequantizeRow(DType dtype, const std::byte* data, int64_t count, float* out) {
  const auto size = static_cast<size_t>(count);
  switch (dtype) {
    case DType::kF32:
      std::memcpy(out, data, size * sizeof(float));
      return;
    case DType::kF16:
      for (size_t i = 0; i < size; ++i) out[i] = F16ToF32(Load<uint16_t>(data, i));
      return;
    case DType::kBF16:
      for (size_t i = 0; i < size; ++i) out[i] = BF16ToF32(Load<uint16_t>(data, i));
      return;
    case DType::kQ8_0:
      // An f16 scale (11 bits) times an 8-bit integer fits the 24 bits of an f32.
      for (size_t i = 0; i < size; i += QuantBlockQ8_0::kElements) {
        const auto block = Load<QuantBlockQ8_0>(data, i / QuantBlockQ8_0::kElements);
        const float scale = F16ToF32(block.scale);
        for (int j = 0; j < QuantBlockQ8_0::kElements; ++j) {
          out[i + static_cast<size_t>(j)] = scale * static_cast<float>(block.quants[j]);
        }
      }
      return;
  }
  KVGATE_CHECK(false, "unknown dtype");
}

void ReferenceWeight::ReadRow(int64_t row, float* out) const {
  DequantizeRow(dtype(), view_.data + static_cast<size_t>(row) * row_bytes(), columns(), out);
}

ReferenceKvArena::ReferenceKvArena(const KvShape& shape, uint32_t num_blocks)
    : KvArena(shape, num_blocks), storage_(ArenaBytes(shape, num_blocks)) {
  base_ = storage_.data();
#if KVGATE_DEBUG
  // All ones is a NaN in f32, f16 and bf16.
  std::memset(base_, 0xff, storage_.size());
#endif
}

float KvHeadView::Read(size_t index) const {
  switch (shape->dtype) {
    case DType::kF32:
      return Load<float>(data, index);
    case DType::kF16:
      return F16ToF32(Load<uint16_t>(data, index));
    case DType::kBF16:
      return BF16ToF32(Load<uint16_t>(data, index));
    case DType::kQ8_0:
      break;
  }
  KVGATE_CHECK(false, "KV dtype");
  return 0;
}

void KvHeadView::Write(size_t index, float value) const {
  switch (shape->dtype) {
    case DType::kF32:
      return Store(data, index, value);
    case DType::kF16:
      return Store(data, index, F32ToF16(value));
    case DType::kBF16:
      return Store(data, index, F32ToBF16(value));
    case DType::kQ8_0:
      break;
  }
  KVGATE_CHECK(false, "KV dtype");
}

KvHeadView KvHeadOf(KvArena& arena, BlockId id, int layer, int kv_head) {
  const KvShape& shape = arena.shape();
  const size_t index = static_cast<size_t>(layer) * shape.num_kv_heads + kv_head;
  const size_t head_bytes =
      2 * DTypeBytes(shape.dtype, static_cast<size_t>(shape.head_dim) * kKvBlockTokens);
  return {.shape = &shape, .data = arena.block(id) + index * head_bytes};
}

KvHeadView KvHeadOf(const KvArena& arena, BlockId id, int layer, int kv_head) {
  return KvHeadOf(const_cast<KvArena&>(arena), id, layer, kv_head);
}

}  // namespace kvgate::kernels::reference
