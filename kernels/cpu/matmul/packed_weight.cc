#include "kernels/cpu/matmul/packed_weight.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/pages.h"
#include "kernels/cpu/matmul/packed_planes.h"

namespace kvgate::kernels::cpu::matmul {
namespace {

// Transposes rows [first_row, first_row + num_rows) of the view into one zeroed panel.
template <typename T>
void PackPanel(const WeightView& view, int64_t first_row, int num_rows, std::byte* panel) {
  // Blocks of 64 columns of source and destination fit L1 for any row length.
  constexpr int64_t kColumnsAtOnce = 64;
  T* to = reinterpret_cast<T*>(panel);
  for (int64_t begin = 0; begin < view.columns; begin += kColumnsAtOnce) {
    const int64_t count = std::min(kColumnsAtOnce, view.columns - begin);
    for (int row = 0; row < num_rows; ++row) {
      T from[kColumnsAtOnce];  // the file's bytes need not be aligned
      std::memcpy(from, view.data + ((first_row + row) * view.columns + begin) * sizeof(T),
                  static_cast<size_t>(count) * sizeof(T));
      for (int64_t i = 0; i < count; ++i) to[(begin + i) * kPanelRows + row] = from[i];
    }
  }
}

void PackQuantPanel(const WeightView& view, int64_t first_row, int num_rows, std::byte* panel) {
  const int64_t num_blocks = view.columns / PackedQuantBlock::kColumns;
  auto* blocks = reinterpret_cast<PackedQuantBlock*>(panel);
  for (int row = 0; row < num_rows; ++row) {
    const std::byte* from = view.data + (first_row + row) * num_blocks * sizeof(QuantBlockQ8_0);
    for (int64_t index = 0; index < num_blocks; ++index) {
      QuantBlockQ8_0 block;
      std::memcpy(&block, from + index * sizeof(block), sizeof(block));
      PackedQuantBlock& to = blocks[index];
      to.scales[row] = block.scale;
      for (int pair = 0; pair < PackedQuantBlock::kColumns / 2; ++pair) {
        to.quants[pair][row][0] = block.quants[2 * pair];
        to.quants[pair][row][1] = block.quants[2 * pair + 1];
      }
    }
  }
}

// Packs panel `panel` of the view into zeroed memory.
void PackAnyPanel(const WeightView& view, int64_t panel, std::byte* to) {
  const int64_t first_row = panel * kPanelRows;
  const int num_rows = static_cast<int>(std::min<int64_t>(kPanelRows, view.rows - first_row));
  switch (view.dtype) {
    case DType::kF32:
      return PackPanel<float>(view, first_row, num_rows, to);
    case DType::kF16:
    case DType::kBF16:
      return PackPanel<uint16_t>(view, first_row, num_rows, to);
    case DType::kQ8_0:
      return PackQuantPanel(view, first_row, num_rows, to);
    default:
      return PackPlanePanel(view, first_row, num_rows, to);
  }
}

// Source bytes packed before their pages are dropped; this bounds what is in memory twice.
constexpr size_t kSourceBytesAtOnce = size_t{16} << 20;

size_t RowBytes(const WeightView& view) {
  return DTypeBytes(view.dtype, static_cast<size_t>(view.columns));
}

void DropRows(const WeightView& view, int64_t first_row, int64_t num_rows) {
  const int64_t here = std::min(num_rows, view.rows - first_row);
  DropPages({view.data + static_cast<size_t>(first_row) * RowBytes(view),
             static_cast<size_t>(here) * RowBytes(view)});
}

}  // namespace

Result<std::unique_ptr<PackedWeight>> PackedWeight::Pack(const WeightView& view,
                                                         machine::ThreadPool& pool,
                                                         machine::WeightMemory& from) {
  const int64_t num_panels = (view.rows + kPanelRows - 1) / kPanelRows;
  const size_t panel_bytes =
      HasQuantLayout(view.dtype)
          ? PlanePanelBytes(view.dtype, view.columns)
          : kPanelRows * DTypeBytes(view.dtype, static_cast<size_t>(view.columns));
  KVGATE_TRY(machine::WeightSlice memory,
             from.Allocate(static_cast<size_t>(num_panels) * panel_bytes,
                           fmt::format("weight [{}, {}] {}", view.rows, view.columns,
                                       DTypeName(view.dtype))));
  const size_t source_bytes = kPanelRows * RowBytes(view);
  const auto panels_at_once =
      std::max<int64_t>(1, static_cast<int64_t>(kSourceBytesAtOnce / source_bytes));
  for (int64_t begin = 0; begin < num_panels; begin += panels_at_once) {
    const int64_t count = std::min(panels_at_once, num_panels - begin);
    pool.ForEach(count, [&](int64_t i, int) {
      PackAnyPanel(view, begin + i, memory.data + static_cast<size_t>(begin + i) * panel_bytes);
    });
    if (view.is_file_mapping) DropRows(view, begin * kPanelRows, count * kPanelRows);
  }
  return std::unique_ptr<PackedWeight>(
      new PackedWeight(view, std::move(memory), num_panels, panel_bytes));
}

}  // namespace kvgate::kernels::cpu::matmul
