// PackedWeight: a weight matrix in the order in which MatMul reads it, created at load.
//
// The rows of the matrix (outputs, N) are split into panels of kPanelRows. The lanes of a vector
// are adjacent outputs, so a sum along K never crosses lanes and has the same order for every
// number of input rows. Panels are consecutive; rows past N are zero. One panel, for K columns:
//   f32, f16, bf16:  [K][kPanelRows]
//   q8_0:            per 32 columns a PackedQuantBlock: the rows' scales, then for each pair of
//                    columns and each row the two quants side by side, the operand of an int16
//                    pair product.
//   other formats:   see packed_planes.h.
// The order is the same for every SIMD target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/backend.h"
#include "kernels/cpu/machine/thread_pool.h"
#include "kernels/cpu/machine/weight_memory.h"

namespace kvgate::kernels::cpu::matmul {

// 32 f16 values are one cache line, and 4864 outputs give 152 panels, enough to distribute.
inline constexpr int kPanelRows = 32;

struct PackedQuantBlock {
  static constexpr int kColumns = QuantBlockQ8_0::kElements;
  uint16_t scales[kPanelRows];                 // f16 bits
  int8_t quants[kColumns / 2][kPanelRows][2];  // [pair of columns][row][column of the pair]
};
static_assert(sizeof(PackedQuantBlock) == kPanelRows * sizeof(QuantBlockQ8_0));
static_assert(sizeof(PackedQuantBlock) % machine::HostMemory::kAlignment == 0);

class PackedWeight final : public Weight {
 public:
  // Reads the view once, with all threads of the pool, and keeps no reference to it.
  static Result<std::unique_ptr<PackedWeight>> Pack(const WeightView& view,
                                                    machine::ThreadPool& pool,
                                                    machine::WeightMemory& memory);
  // As above, with memory of its own.
  static Result<std::unique_ptr<PackedWeight>> Pack(const WeightView& view,
                                                    machine::ThreadPool& pool) {
    machine::WeightMemory memory;
    return Pack(view, pool, memory);
  }

  size_t bytes() const override { return memory_.size; }
  int64_t num_panels() const { return num_panels_; }
  size_t panel_bytes() const { return panel_bytes_; }
  const std::byte* panel(int64_t index) const { return memory_.data + index * panel_bytes_; }

 private:
  PackedWeight(const WeightView& view, machine::WeightSlice memory, int64_t num_panels,
               size_t panel_bytes)
      : Weight(view),
        memory_(std::move(memory)),
        num_panels_(num_panels),
        panel_bytes_(panel_bytes) {}

  machine::WeightSlice memory_;
  int64_t num_panels_;
  size_t panel_bytes_;
};

}  // namespace kvgate::kernels::cpu::matmul
