// PackedWeight: a weight in device memory, in the order of packed_layout.h. WeightPacker makes it:
// a few threads reorder a piece in page-locked memory, which the device then copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/backend.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/packed_layout.h"

namespace kvgate::kernels::cuda {

class PackedWeight final : public Weight {
 public:
  size_t bytes() const override { return memory_.size(); }
  PackedKind kind() const { return kind_; }
  const std::byte* data() const { return memory_.data(); }
  int num_tiles() const { return num_tiles_; }
  int num_units() const { return num_units_; }
  // [num_tiles * kTileRows]: what a row's sums are multiplied by. Not for kFloats.
  const float* row_scales() const {
    return reinterpret_cast<const float*>(memory_.data() + scales_offset_);
  }
  // Of codes; 128 where they are of 8 bits.
  int offset() const { return offset_; }

 private:
  friend class WeightPacker;
  PackedWeight(const WeightView& view, PackedKind kind, DeviceMemory memory, size_t scales_offset);

  DeviceMemory memory_;
  size_t scales_offset_;
  PackedKind kind_;
  int num_tiles_;
  int num_units_;
  int offset_;
};

// One thread.
class WeightPacker {
 public:
  // kOverloaded: no memory for the weight on the device, or for a piece of it on the host.
  Result<std::unique_ptr<PackedWeight>> Pack(const WeightView& view, PackedKind kind);

 private:
  void PackPieces(const WeightView& view, DeviceMemory& memory, PackedKind kind);
  void CopyFloats(const WeightView& view, DeviceMemory& memory);

  PinnedMemory piece_;
};

// One tile: rows [tile * 16, ...) of the view, into zeroed memory of num_units * unit_bytes, and
// the rows' 16 scales.
void PackTile(const WeightView& view, PackedKind kind, int64_t tile, std::byte* to, float* scales);
// Bytes of a tile of so many columns.
size_t PackedTileBytes(PackedKind kind, int64_t columns);

}  // namespace kvgate::kernels::cuda
