// PackedWeight: a weight in device memory in the layout of packed_layout.h. WeightPacker creates
// it: a few threads reorder a piece in page-locked memory, which the device then copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/backend.h"
#include "kernels/cuda/matmul/packed_layout.h"
#include "kernels/cuda/memory/device_memory.h"

namespace kvgate::kernels::cuda::matmul {

class PackedWeight final : public Weight {
 public:
  size_t bytes() const override { return memory_.size(); }
  PackedKind kind() const { return kind_; }
  const std::byte* data() const { return memory_.data(); }
  int num_tiles() const { return num_tiles_; }
  int num_units() const { return num_units_; }
  // [num_tiles * kTileRows]: factors of the rows' sums. Not for kFloats.
  const float* row_scales() const {
    return reinterpret_cast<const float*>(memory_.data() + scales_offset_);
  }
  // Returns the offset of codes; 128 for 8-bit codes.
  int offset() const { return offset_; }

 private:
  friend class WeightPacker;
  PackedWeight(const WeightView& view, PackedKind kind, memory::DeviceMemory memory,
               size_t scales_offset);

  memory::DeviceMemory memory_;
  size_t scales_offset_;
  PackedKind kind_;
  int num_tiles_;
  int num_units_;
  int offset_;
};

// Not thread-safe.
class WeightPacker {
 public:
  // Returns kOverloaded without memory for the weight on the device, or for a piece of it on the
  // host.
  Result<std::unique_ptr<PackedWeight>> Pack(const WeightView& view, PackedKind kind);

 private:
  void PackPieces(const WeightView& view, memory::DeviceMemory& memory, PackedKind kind);
  void CopyFloats(const WeightView& view, memory::DeviceMemory& memory);

  memory::PinnedMemory piece_;
};

// Packs one tile, rows [tile * 16, ...) of the view, into zeroed memory of num_units * unit_bytes,
// and writes the rows' 16 scales.
void PackTile(const WeightView& view, PackedKind kind, int64_t tile, std::byte* to, float* scales);
// Returns the bytes of a tile with that many columns.
size_t PackedTileBytes(PackedKind kind, int64_t columns);

}  // namespace kvgate::kernels::cuda::matmul
