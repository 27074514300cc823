#include "kernels/cpu/matmul/matmul.h"

#include <algorithm>
#include <new>
#include <utility>

#include "kernels/cpu/machine/simd_target.h"
#include "kernels/cpu/matmul/matmul_amx.h"

namespace kvgate::kernels::cpu::matmul {
namespace {

// Rows of x that are multiplied with a panel before the next one is expanded: their column block
// (512 KiB) stays in L2.
constexpr int kRowsAtOnce = 512;
// With fewer rows the vector kernels are faster, because a tile's time does not depend on its rows.
constexpr int kAmxRowsMin = 8;
static_assert(kAmxScratchBytes <= kMatMulScratchFloats * sizeof(float));
// Each thread gets several parts, so that one that loses its time slice delays the product only a
// little.
constexpr int64_t kPartsPerThread = 6;

// Grows scratch memory that is never shrunk; its size is bounded by the largest batch.
template <typename T>
T* Reserve(machine::HostMemory& memory, size_t count) {
  if (memory.size() < count * sizeof(T)) {
    memory = machine::HostMemory();
    auto grown = machine::HostMemory::Allocate(count * sizeof(T), "MatMul scratch");
    // Callers of a step handle bad_alloc anyway, because the vectors here can throw it too.
    if (!grown) throw std::bad_alloc();
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
  // A tile of one to three rows leaves multipliers idle, so it shares the rows of the last full
  // tile.
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

ParallelMatMul::ParallelMatMul(int64_t target, machine::ThreadPool& pool)
    : float_kernels_(FloatMatMulKernelsFor(target)),
      quant_kernels_(QuantMatMulKernelsFor(target)),
      plane_kernels_(PlaneMatMulKernelsFor(target)),
      has_amx_((target & machine::kAmxBit) != 0),
      pool_(pool) {
  Reserve<float>(thread_scratch_, kMatMulScratchFloats * pool.num_threads());
}

void ParallelMatMul::PrepareRows(const float* x, int64_t columns,
                                 std::span<const MatMulTask> tasks) {
  // With fewer values a parallel region costs more than the copy.
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
  // A single row needs no packing.
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

namespace {

// Calls body(task, panel_begin, panel_end) for the panels of all tasks that belong to part `part`
// of num_parts.
template <typename Body>
void ForPanelsOf(std::span<const MatMulTask> tasks, int64_t part, int64_t num_parts,
                 const Body& body) {
  int64_t num_panels = 0;
  for (const MatMulTask& task : tasks) num_panels += Packed(task).num_panels();
  int64_t begin = part * num_panels / num_parts;  // index among the panels of all tasks
  int64_t end = (part + 1) * num_panels / num_parts;
  for (const MatMulTask& task : tasks) {
    const int64_t panels = Packed(task).num_panels();
    if (begin < panels && end > 0) {
      body(task, std::max<int64_t>(begin, 0), std::min(end, panels));
    }
    begin -= panels;
    end -= panels;
  }
}

// How a product is split: into runs of row tiles, and runs of the panels of all tasks.
struct Cut {
  int64_t row_parts;
  int64_t panel_parts;
};

Cut CutProduct(int64_t num_tiles, int tile_rows, std::span<const MatMulTask> tasks,
               int num_threads) {
  int64_t num_panels = 0;
  for (const MatMulTask& task : tasks) num_panels += Packed(task).num_panels();
  const int64_t tiles_at_once =
      std::max<int64_t>(1, std::min<int64_t>(num_tiles, kRowsAtOnce / tile_rows));
  const int64_t row_parts = (num_tiles + tiles_at_once - 1) / tiles_at_once;
  return {
      .row_parts = row_parts,
      .panel_parts = std::clamp<int64_t>(kPartsPerThread * num_threads / row_parts, 1, num_panels)};
}

}  // namespace

void ParallelMatMul::Run(const float* x, int num_rows, std::span<const MatMulTask> tasks) {
  if (has_amx_ && num_rows >= kAmxRowsMin && std::all_of(tasks.begin(), tasks.end(), IsQuantized)) {
    return RunAmx(x, num_rows, tasks);
  }
  RunVectors(x, num_rows, tasks);
}

void ParallelMatMul::RunAmx(const float* x, int num_rows, std::span<const MatMulTask> tasks) {
  const int64_t columns = tasks[0].weight->columns();
  const int64_t num_units = columns / kAmxUnitColumns;
  const int64_t num_tiles = (num_rows + kAmxRows - 1) / kAmxRows;
  auto* rows = Reserve<AmxRows>(amx_rows_, static_cast<size_t>(num_tiles * num_units));
  const auto end_of = [&](int64_t tile) {
    return static_cast<int>(std::min<int64_t>(tile * kAmxRows, num_rows));
  };
  pool_.ForEach(num_tiles, [&](int64_t tile, int) {
    quant_kernels_.amx.quantize_rows(x + tile * kAmxRows * columns, columns,
                                     end_of(tile + 1) - end_of(tile), rows + tile * num_units);
  });
  const Cut cut = CutProduct(num_tiles, kAmxRows, tasks, pool_.num_threads());
  pool_.ForEach(cut.row_parts * cut.panel_parts, [&](int64_t item, int thread) {
    const int64_t row_part = item / cut.panel_parts;
    const int row_begin = end_of(row_part * num_tiles / cut.row_parts);
    const int row_end = end_of((row_part + 1) * num_tiles / cut.row_parts);
    ForPanelsOf(tasks, item % cut.panel_parts, cut.panel_parts,
                [&](const MatMulTask& task, int64_t panel_begin, int64_t panel_end) {
                  MultiplyAmx({.weight = &Packed(task),
                               .bias = task.bias,
                               .y = task.y,
                               .accumulate = task.accumulate,
                               .panel_begin = panel_begin,
                               .panel_end = panel_end,
                               .row_begin = row_begin,
                               .row_end = row_end,
                               .x = rows,
                               .quant_kernels = quant_kernels_.amx,
                               .plane_kernels = plane_kernels_.amx,
                               .scratch = thread_scratch_.data() +
                                          kMatMulScratchFloats * sizeof(float) * thread});
                });
  });
}

void ParallelMatMul::RunVectors(const float* x, int num_rows, std::span<const MatMulTask> tasks) {
  const int64_t columns = tasks[0].weight->columns();
  if (rows_.num_rows != num_rows) tiles_ = CutRows(num_rows, float_kernels_.max_tile_rows);
  rows_.num_rows = num_rows;
  rows_.columns = columns;
  PrepareRows(x, columns, tasks);

  const auto num_tiles = static_cast<int64_t>(tiles_.size());
  const Cut cut = CutProduct(num_tiles, float_kernels_.max_tile_rows, tasks, pool_.num_threads());
  auto* scratch = reinterpret_cast<float*>(thread_scratch_.data());

  pool_.ForEach(cut.row_parts * cut.panel_parts, [&](int64_t item, int thread) {
    const int64_t row_part = item / cut.panel_parts;
    const int64_t tile_begin = row_part * num_tiles / cut.row_parts;
    const int64_t tile_end = (row_part + 1) * num_tiles / cut.row_parts;
    ForPanelsOf(
        tasks, item % cut.panel_parts, cut.panel_parts,
        [&](const MatMulTask& task, int64_t panel_begin, int64_t panel_end) {
          KernelFor(task)({.weight = &Packed(task),
                           .bias = task.bias,
                           .y = task.y,
                           .accumulate = task.accumulate,
                           .panel_begin = panel_begin,
                           .panel_end = panel_end,
                           .x = &rows_,
                           .tiles = std::span(tiles_).subspan(tile_begin, tile_end - tile_begin),
                           .scratch = scratch + kMatMulScratchFloats * thread});
        });
  });
}

}  // namespace kvgate::kernels::cpu::matmul
