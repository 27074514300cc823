// Memory of the reference backend: plain host memory, weights left as the model file holds them,
// and the order of elements inside a KV block. Knows nothing of the operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/backend.h"

namespace kvgate::kernels::reference {

// Writes `count` consecutive elements of `data` as f32; every dtype converts exactly. The data may
// be unaligned. REQUIRES: count is a multiple of DTypeElements(dtype).
void DequantizeRow(DType dtype, const std::byte* data, int64_t count, float* out);

// Keeps the view: rows are dequantized when they are used.
class ReferenceWeight final : public Weight {
 public:
  explicit ReferenceWeight(const WeightView& view) : Weight(view), view_(view) {}
  size_t bytes() const override { return static_cast<size_t>(rows()) * row_bytes(); }
  void ReadRow(int64_t row, float* out) const;

 private:
  size_t row_bytes() const { return DTypeBytes(dtype(), static_cast<size_t>(columns())); }

  WeightView view_;
};

class ReferenceFloats final : public FloatBuffer {
 public:
  explicit ReferenceFloats(size_t count) : values_(count, 0.0f) {
    data_ = values_.data();
    size_ = count;
  }

 private:
  std::vector<float> values_;
};

class ReferenceKvArena final : public KvArena {
 public:
  // Throws std::bad_alloc when the memory is not there; the backend catches it.
  ReferenceKvArena(const KvShape& shape, uint32_t num_blocks);

 private:
  std::vector<std::byte> storage_;
};

// One layer and KV head of one block: K as [head_dim][kKvBlockTokens], behind it V as
// [kKvBlockTokens][head_dim].
struct KvHeadView {
  const KvShape* shape;
  std::byte* data;

  float ReadK(int dim, int slot) const { return Read(KIndex(dim, slot)); }
  float ReadV(int slot, int dim) const { return Read(VIndex(slot, dim)); }
  void WriteK(int dim, int slot, float value) const { Write(KIndex(dim, slot), value); }
  void WriteV(int slot, int dim, float value) const { Write(VIndex(slot, dim), value); }

 private:
  size_t KIndex(int dim, int slot) const {
    return static_cast<size_t>(dim) * kKvBlockTokens + slot;
  }
  size_t VIndex(int slot, int dim) const {
    return static_cast<size_t>(kKvBlockTokens + slot) * shape->head_dim + dim;
  }
  float Read(size_t index) const;
  void Write(size_t index, float value) const;  // rounds to nearest even
};

KvHeadView KvHeadOf(KvArena& arena, BlockId id, int layer, int kv_head);
// The same for reading; only the Read functions of the view may be called.
KvHeadView KvHeadOf(const KvArena& arena, BlockId id, int layer, int kv_head);

}  // namespace kvgate::kernels::reference
