// Memory of the reference backend: plain host memory, weights as stored in the model file, and the
// order of elements inside a KV block. It knows nothing of the operations.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/backend.h"

namespace kvgate::kernels::reference {

// Keeps the view; rows are dequantized when they are used.
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

class ReferenceBytes final : public HostBuffer {
 public:
  explicit ReferenceBytes(size_t size) : storage_(size / sizeof(Line) + 1) {
    data_ = reinterpret_cast<std::byte*>(storage_.data());
    size_ = size;
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> storage_;
};

class ReferenceKvArena final : public KvArena {
 public:
  // Throws std::bad_alloc if there is not enough memory; the backend catches it.
  ReferenceKvArena(const KvShape& shape, uint32_t num_blocks);

 private:
  std::vector<std::byte> storage_;
};

// One layer and KV head of one block, in the order that KvArena documents for the CPU: K, then V,
// each consisting of groups of one dimension (32 if the dtype is quantized).
struct KvHeadView {
  static constexpr size_t kGroupBytesMax = sizeof(QuantBlockQ8_0);
  const KvShape* shape;
  std::byte* data;

  // Read and write the head_dim values of the token in `slot`.
  void ReadK(int slot, float* values) const { ReadRow(0, slot, values); }
  void ReadV(int slot, float* values) const { ReadRow(1, slot, values); }
  void WriteK(int slot, const float* values) const { WriteRow(0, slot, values); }
  void WriteV(int slot, const float* values) const { WriteRow(1, slot, values); }
  // Copies K and V of one token bit for bit.
  void CopyToken(const KvHeadView& from, int slot) const;

 private:
  // Returns the offset of byte `byte` of group `group` of the token in `slot`; part 0 is K, 1 is V.
  size_t ByteIndex(int part, int group, int slot, size_t byte) const;
  // The offsets of the bytes of one row: byte i of group g is at g * stride + bytes[i].
  struct RowPlaces {
    int num_elements = 0;  // per group
    int num_groups = 0;
    size_t num_bytes = 0;  // per group
    size_t stride = 0;
    std::array<size_t, kGroupBytesMax> bytes{};
  };
  RowPlaces PlacesOf(int part, int slot) const;
  void ReadRow(int part, int slot, float* values) const;
  void WriteRow(int part, int slot, const float* values) const;
};

KvHeadView KvHeadOf(KvArena& arena, BlockId id, int layer, int kv_head);
// As above for reading; only the Read functions of the view may be called.
KvHeadView KvHeadOf(const KvArena& arena, BlockId id, int layer, int kv_head);

}  // namespace kvgate::kernels::reference
