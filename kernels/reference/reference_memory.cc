#include "kernels/reference/reference_memory.h"

#include <array>
#include <cstring>
#include <new>

#include "kernels/weight_format.h"

namespace kvgate::kernels::reference {
namespace {

// Returns the bytes of the arena; throws bad_alloc if the product overflows.
size_t ArenaBytes(const KvShape& shape, uint32_t num_blocks) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(shape.block_bytes(), static_cast<size_t>(num_blocks), &bytes)) {
    throw std::bad_alloc();
  }
  return bytes;
}

}  // namespace

void ReferenceWeight::ReadRow(int64_t row, float* out) const {
  DequantizeValues(dtype(), view_.data + static_cast<size_t>(row) * row_bytes(), columns(), out);
}

ReferenceKvArena::ReferenceKvArena(const KvShape& shape, uint32_t num_blocks)
    : KvArena(shape, num_blocks), storage_(ArenaBytes(shape, num_blocks)) {
  base_ = storage_.data();
#if KVGATE_DEBUG
  // All ones is a NaN in f32, f16, bf16 and fp8_e4m3, and as the scale of a quant block.
  std::memset(base_, 0xff, storage_.size());
#endif
}

size_t KvHeadView::ByteIndex(int part, int group, int slot, size_t byte) const {
  const auto elements = static_cast<size_t>(DTypeElements(shape->dtype));
  const size_t group_bytes = DTypeBytes(shape->dtype, elements);
  const auto head_dim = static_cast<size_t>(shape->head_dim);
  const size_t part_begin = part * DTypeBytes(shape->dtype, head_dim * kKvBlockTokens);
  if (elements == 1) {
    const size_t index = part == 0 ? static_cast<size_t>(group) * kKvBlockTokens + slot
                                   : static_cast<size_t>(slot) * head_dim + group;
    return part_begin + index * group_bytes + byte;
  }
  const size_t begin = part_begin + group * group_bytes * kKvBlockTokens;
  constexpr size_t kScaleBytes = sizeof(QuantBlockQ8_0::scale);
  if (byte < kScaleBytes) return begin + slot * kScaleBytes + byte;
  const size_t quants = begin + kKvBlockTokens * kScaleBytes;
  const size_t quant = byte - kScaleBytes;
  return quants +
         (part == 0 ? quant * kKvBlockTokens + slot : slot * (group_bytes - kScaleBytes) + quant);
}

KvHeadView::RowPlaces KvHeadView::PlacesOf(int part, int slot) const {
  RowPlaces places;
  places.num_elements = DTypeElements(shape->dtype);
  places.num_groups = shape->head_dim / places.num_elements;
  places.num_bytes = DTypeBytes(shape->dtype, static_cast<size_t>(places.num_elements));
  for (size_t i = 0; i < places.num_bytes; ++i) places.bytes[i] = ByteIndex(part, 0, slot, i);
  places.stride = ByteIndex(part, 1, slot, 0) - ByteIndex(part, 0, slot, 0);
  return places;
}

void KvHeadView::ReadRow(int part, int slot, float* values) const {
  const RowPlaces places = PlacesOf(part, slot);
  std::array<std::byte, kGroupBytesMax> stored{};
  for (int group = 0; group < places.num_groups; ++group) {
    const std::byte* from = data + group * places.stride;
    for (size_t i = 0; i < places.num_bytes; ++i) stored[i] = from[places.bytes[i]];
    DequantizeValues(shape->dtype, stored.data(), places.num_elements,
                     values + group * places.num_elements);
  }
}

void KvHeadView::WriteRow(int part, int slot, const float* values) const {
  const RowPlaces places = PlacesOf(part, slot);
  std::array<std::byte, kGroupBytesMax> stored{};
  for (int group = 0; group < places.num_groups; ++group) {
    QuantizeValues(shape->dtype, values + group * places.num_elements, places.num_elements,
                   stored.data());
    std::byte* to = data + group * places.stride;
    for (size_t i = 0; i < places.num_bytes; ++i) to[places.bytes[i]] = stored[i];
  }
}

void KvHeadView::CopyToken(const KvHeadView& from, int slot) const {
  for (int part = 0; part < 2; ++part) {
    const RowPlaces places = PlacesOf(part, slot);
    for (int group = 0; group < places.num_groups; ++group) {
      for (size_t i = 0; i < places.num_bytes; ++i) {
        const size_t index = group * places.stride + places.bytes[i];
        data[index] = from.data[index];
      }
    }
  }
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
