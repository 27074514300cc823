#include "kernels/cpu/matmul.h"

#include <kvgate/check.h>

#include <algorithm>
#include <utility>

namespace kvgate::kernels::cpu {
namespace {

// Rows of x that meet a panel before the next one is expanded: their block of columns (512 KiB)
// stays in L2.
constexpr int kRowsAtOnce = 512;
// Parts per thread: enough that a core that loses its time slice delays little.
constexpr int64_t kPartsPerThread = 6;

// Scratch that grows and is never given back; its size is bounded by the largest batch.
template <typename T>
T* Reserve(HostMemory& memory, size_t count) {
  if (memory.size() < count * sizeof(T)) {
    memory = HostMemory();
    auto grown = HostMemory::Allocate(count * sizeof(T), "MatMul scratch");
    KVGATE_CHECK(grown.has_value(), "no memory for the scratch of a product");
    memory = std::move(*grown);
  }
  return reinterpret_cast<T*>(memory.data());
}

bool IsQuantized(const MatMulTask& task) { return DTypeElements(task.weight->dtype()) != 1; }

const PackedWeight& Packed(const MatMulTask& task) {
  return *static_cast<const PackedWeight*>(task.weight);
}

}  // namespace

std::vector<RowTile> CutRows(int num_rows, int max_rows) {
  constexpr int kSmallRowsMax = 6;
  int num_full = num_rows / max_rows;
  int rest = num_rows % max_rows;
  // A tile of one to three rows leaves multipliers idle: share the last full tile's rows with it.
  if (rest > 0 && rest < 4 && num_full > 0) {
    --num_full;
    rest += max_rows;
  }
  std::vector<RowTile> tiles;
  for (int i = 0; i < num_full; ++i) tiles.push_back({.first = i * max_rows, .rows = max_rows});
  int first = num_full * max_rows;
  for (int left = (rest + kSmallRowsMax - 1) / kSmallRowsMax; left > 0; --left) {
    const int rows = (num_rows - first + left - 1) / left;
    tiles.push_back({.first = first, .rows = rows});
    first += rows;
  }
  return tiles;
}

ParallelMatMul::ParallelMatMul(int64_t target, ThreadPool& pool)
    : float_kernels_(FloatMatMulKernelsFor(target)),
      quant_kernels_(QuantMatMulKernelsFor(target)),
      plane_kernels_(PlaneMatMulKernelsFor(target)),
      pool_(pool) {
  Reserve<float>(thread_scratch_, kMatMulScratchFloats * pool.num_threads());
}

void ParallelMatMul::PrepareRows(const float* x, int64_t columns,
                                 std::span<const MatMulTask> tasks) {
  // Below this many values a parallel region costs more than the copy.
  constexpr int64_t kParallelValuesMin = 8192;
  const bool quantized = std::any_of(tasks.begin(), tasks.end(), IsQuantized);
  const bool plain = !std::all_of(tasks.begin(), tasks.end(), IsQuantized);
  const size_t count = static_cast<size_t>(rows_.num_rows) * columns;
  float* values = nullptr;
  QuantizedRows quants;
  if (plain && rows_.num_rows > 1) values = Reserve<float>(values_, count);
  if (quantized) {
    quants = {.pairs = Reserve<int32_t>(pairs_, count / 2),
              .scales = Reserve<float>(scales_, count / PackedQuantBlock::kColumns),
              .sums = Reserve<int32_t>(sums_, 2 * count / PackedQuantBlock::kColumns)};
  }
  // A single row is its own packed form.
  rows_.values = values != nullptr ? values : x;
  rows_.pairs = quants.pairs;
  rows_.scales = quants.scales;
  rows_.sums = quants.sums;
  const auto prepare = [&](int64_t index, int) {
    const RowTile tile = tiles_[index];
    if (values != nullptr) float_kernels_.pack_rows(x, columns, rows_.num_rows, tile, values);
    if (quantized) quant_kernels_.quantize_rows(x, columns, rows_.num_rows, tile, quants);
  };
  const auto num_tiles = static_cast<int64_t>(tiles_.size());
  if (static_cast<int64_t>(count) >= kParallelValuesMin) {
    pool_.ForEach(num_tiles, prepare);
  } else {
    for (int64_t index = 0; index < num_tiles; ++index) prepare(index, 0);
  }
}

ParallelMatMul::Multiply ParallelMatMul::KernelFor(const MatMulTask& task) const {
  if (!IsQuantized(task)) return float_kernels_.multiply;
  return task.weight->dtype() == DType::kQ8_0 ? quant_kernels_.multiply : plane_kernels_.multiply;
}

void ParallelMatMul::Run(const float* x, int num_rows, std::span<const MatMulTask> tasks) {
  const int64_t columns = tasks[0].weight->columns();
  if (rows_.num_rows != num_rows) tiles_ = CutRows(num_rows, float_kernels_.max_tile_rows);
  rows_.num_rows = num_rows;
  rows_.columns = columns;
  PrepareRows(x, columns, tasks);

  int64_t num_panels = 0;
  for (const MatMulTask& task : tasks) num_panels += Packed(task).num_panels();
  const int64_t num_tiles = static_cast<int64_t>(tiles_.size());
  const int64_t tiles_at_once = std::max<int64_t>(
      1, std::min<int64_t>(num_tiles, kRowsAtOnce / float_kernels_.max_tile_rows));
  const int64_t num_row_parts = (num_tiles + tiles_at_once - 1) / tiles_at_once;
  const int64_t num_panel_parts =
      std::clamp<int64_t>(kPartsPerThread * pool_.num_threads() / num_row_parts, 1, num_panels);
  auto* scratch = reinterpret_cast<float*>(thread_scratch_.data());

  pool_.ForEach(num_row_parts * num_panel_parts, [&](int64_t item, int thread) {
    const int64_t tile_begin = item / num_panel_parts * num_tiles / num_row_parts;
    const int64_t tile_end = (item / num_panel_parts + 1) * num_tiles / num_row_parts;
    const int64_t part = item % num_panel_parts;
    int64_t begin = part * num_panels / num_panel_parts;  // among the panels of all tasks
    int64_t end = (part + 1) * num_panels / num_panel_parts;
    for (const MatMulTask& task : tasks) {
      const PackedWeight& weight = Packed(task);
      const int64_t panel_begin = std::max<int64_t>(begin, 0);
      const int64_t panel_end = std::min(end, weight.num_panels());
      begin -= weight.num_panels();
      end -= weight.num_panels();
      if (panel_begin >= panel_end) continue;
      KernelFor(task)({.weight = &weight,
                       .bias = task.bias,
                       .y = task.y,
                       .accumulate = task.accumulate,
                       .panel_begin = panel_begin,
                       .panel_end = panel_end,
                       .x = &rows_,
                       .tiles = std::span(tiles_).subspan(tile_begin, tile_end - tile_begin),
                       .scratch = scratch + kMatMulScratchFloats * thread});
    }
  });
}

}  // namespace kvgate::kernels::cpu
