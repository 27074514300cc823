// PackedWeight: a weight matrix in the order in which MatMul reads it, made once at load.
//
// The rows of the matrix (outputs, N) are cut into panels of kPanelRows; the lanes of a vector are
// neighbouring outputs, so a sum along K never crosses lanes and has one order for every number of
// input rows. Panels follow each other; rows past N are zero. One panel, for K columns:
//   f32, f16, bf16:  [K][kPanelRows]
//   q8_0:            per 32 columns a PackedQuantBlock: the rows' scales, then for each pair of
//                    columns and each row the two quants side by side, which is what an int16
//                    pair product wants.
//   the others:      packed_planes.h.
// The order is the same for every SIMD target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/backend.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/machine/weight_memory.h"

namespace kvgate::kernels::cpu {

// 32 f16 values are one cache line, and 4864 outputs are 152 panels: enough to share out.
inline constexpr int kPanelRows = 32;

struct PackedQuantBlock {
  static constexpr int kColumns = QuantBlockQ8_0::kElements;
  uint16_t scales[kPanelRows];                 // f16 bits
  int8_t quants[kColumns / 2][kPanelRows][2];  // [pair of columns][row][column of the pair]
};
static_assert(sizeof(PackedQuantBlock) == kPanelRows * sizeof(QuantBlockQ8_0));
static_assert(sizeof(PackedQuantBlock) % HostMemory::kAlignment == 0);

class PackedWeight final : public Weight {
 public:
  // Reads the view once, with all threads of the pool; does not keep it.
  static Result<std::unique_ptr<PackedWeight>> Pack(const WeightView& view, ThreadPool& pool,
                                                    WeightMemory& memory);
  // In memory of its own.
  static Result<std::unique_ptr<PackedWeight>> Pack(const WeightView& view, ThreadPool& pool) {
    WeightMemory memory;
    return Pack(view, pool, memory);
  }

  size_t bytes() const override { return memory_.size; }
  int64_t num_panels() const { return num_panels_; }
  size_t panel_bytes() const { return panel_bytes_; }
  const std::byte* panel(int64_t index) const { return memory_.data + index * panel_bytes_; }

 private:
  PackedWeight(const WeightView& view, WeightSlice memory, int64_t num_panels, size_t panel_bytes)
      : Weight(view),
        memory_(std::move(memory)),
        num_panels_(num_panels),
        panel_bytes_(panel_bytes) {}

  WeightSlice memory_;
  int64_t num_panels_;
  size_t panel_bytes_;
};

}  // namespace kvgate::kernels::cpu
