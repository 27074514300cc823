#include "kernels/cuda/rows/embedding_tables.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/pages.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/rows/float_run.cuh"
#include "kernels/weight_format.h"

namespace kvgate::kernels::cuda::rows {

using device::HalfToFloat;

namespace {

constexpr unsigned int kThreads = 256;
constexpr int64_t kBlocksPerMultiprocessor = 16;
// Size of the pieces in which a table is loaded. Staged rows are split too, so that the page-locked
// memory in flight is bounded.
constexpr size_t kPieceBytes = size_t{16} << 20;
constexpr size_t kStagedBytesMax = size_t{1} << 20;

struct EmbedArgument {
  const std::byte* rows;
  const TokenId* ids;  // [num_ids]
  float* y;
  int64_t columns;
  uint64_t row_bytes;
  uint32_t num_ids;
  uint32_t runs_per_row;
  uint64_t is_aligned;  // applies to y
};

// Quantized values are read in units of at most two bytes, because blocks may start at any even
// address.
KVGATE_DEVICE uint32_t ByteAt(const std::byte* from, int64_t at) {
  return static_cast<uint32_t>(from[at]);
}
KVGATE_DEVICE uint16_t HalfAt(const std::byte* from, int64_t at) {
  return *reinterpret_cast<const uint16_t*>(from + at);
}

// Return scale and min of group `g` of Q4_K and Q5_K, from their shared 12 bytes.
KVGATE_DEVICE uint32_t SixBitScale(const std::byte* scales, int g) {
  if (g < 4) return ByteAt(scales, g) & 63;
  return (ByteAt(scales, g + 4) & 15) | ByteAt(scales, g - 4) >> 6 << 4;
}
KVGATE_DEVICE uint32_t SixBitMin(const std::byte* scales, int g) {
  if (g < 4) return ByteAt(scales, g + 4) & 63;
  return ByteAt(scales, g + 4) >> 4 | ByteAt(scales, g) >> 6 << 4;
}

// Returns value `column` of a row. Products and differences are rounded separately, as
// quant_parts.h specifies.
template <DType kDType>
KVGATE_DEVICE float ValueAt(const std::byte* row, int64_t column) {
  if constexpr (kDType == DType::kF32) {
    return *reinterpret_cast<const float*>(row + column * 4);
  } else if constexpr (kDType == DType::kF16) {
    return HalfToFloat(HalfAt(row, column * 2));
  } else if constexpr (kDType == DType::kBF16) {
    return device::Bf16ToFloat(HalfAt(row, column * 2));
  } else if constexpr (kDType == DType::kQ8_0) {
    const std::byte* block = row + column / 32 * 34;
    const auto quant = static_cast<int8_t>(ByteAt(block, 2 + column % 32));
    return HalfToFloat(HalfAt(block, 0)) * static_cast<float>(quant);
  } else if constexpr (kDType == DType::kQ4_0) {
    const std::byte* block = row + column / 32 * 18;
    const uint32_t both = ByteAt(block, 2 + column % 16);
    const int code = static_cast<int>(column % 32 < 16 ? both & 15 : both >> 4);
    return HalfToFloat(HalfAt(block, 0)) * static_cast<float>(code - 8);
  } else if constexpr (kDType == DType::kQ6_K) {
    const std::byte* block = row + column / 256 * 210;
    const int i = static_cast<int>(column % 256);
    const uint32_t low = ByteAt(block, i / 128 * 64 + i % 64) >> (i / 64 % 2 * 4) & 15;
    const uint32_t high = ByteAt(block, 128 + i / 128 * 32 + i % 32) >> (i / 32 % 4 * 2) & 3;
    const auto group_scale = static_cast<int8_t>(ByteAt(block, 192 + i / 16));
    const float scale = HalfToFloat(HalfAt(block, 208)) * static_cast<float>(group_scale);
    return scale * static_cast<float>(static_cast<int>(low | high << 4) - 32);
  } else {
    static_assert(kDType == DType::kQ4_K || kDType == DType::kQ5_K);
    constexpr bool kHasFifthBit = kDType == DType::kQ5_K;
    const std::byte* block = row + column / 256 * (kHasFifthBit ? 176 : 144);
    const std::byte* quants = block + (kHasFifthBit ? 48 : 16);
    const int i = static_cast<int>(column % 256);
    uint32_t code = ByteAt(quants, i / 64 * 32 + i % 32) >> (i / 32 % 2 * 4) & 15;
    if constexpr (kHasFifthBit) code |= (ByteAt(block, 16 + i % 32) >> (i / 32) & 1) << 4;
    const float scale =
        HalfToFloat(HalfAt(block, 0)) * static_cast<float>(SixBitScale(block + 4, i / 32));
    const float min =
        HalfToFloat(HalfAt(block, 2)) * static_cast<float>(SixBitMin(block + 4, i / 32));
    return scale * static_cast<float>(code) - min;
  }
}

template <DType kDType>
KVGATE_KERNEL void EmbedKernel(EmbedArgument a) {
  const uint32_t num_runs = a.num_ids * a.runs_per_row;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < num_runs;
       i += int64_t{gridDim.x} * blockDim.x) {
    const uint32_t place = static_cast<uint32_t>(i) / a.runs_per_row;
    const int64_t begin = int64_t{static_cast<uint32_t>(i) % a.runs_per_row} * kRunFloats;
    const std::byte* row = a.rows + static_cast<uint64_t>(a.ids[place]) * a.row_bytes;
    FloatRun run = {};
    KVGATE_UNROLL
    for (int j = 0; j < kRunFloats; ++j) {
      if (begin + j < a.columns) run.value[j] = ValueAt<kDType>(row, begin + j);
    }
    StoreRun(run, a.y + place * a.columns, begin, a.columns, a.is_aligned != 0);
  }
}

using EmbedKernelPointer = void (*)(EmbedArgument);

// Returns null if the dtype has no kernel.
EmbedKernelPointer KernelOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return &EmbedKernel<DType::kF32>;
    case DType::kF16:
      return &EmbedKernel<DType::kF16>;
    case DType::kBF16:
      return &EmbedKernel<DType::kBF16>;
    case DType::kQ8_0:
      return &EmbedKernel<DType::kQ8_0>;
    case DType::kQ4_0:
      return &EmbedKernel<DType::kQ4_0>;
    case DType::kQ4_K:
      return &EmbedKernel<DType::kQ4_K>;
    case DType::kQ5_K:
      return &EmbedKernel<DType::kQ5_K>;
    case DType::kQ6_K:
      return &EmbedKernel<DType::kQ6_K>;
    default:
      return nullptr;
  }
}

DType DeviceDTypeOf(DType dtype) { return KernelOf(dtype) != nullptr ? dtype : DType::kF32; }

// Writes one row in the form that the device keeps: the file's bytes, or f32.
void WriteRow(const WeightView& table, int64_t row, std::byte* to) {
  const size_t row_bytes = DTypeBytes(table.dtype, static_cast<size_t>(table.columns));
  const std::byte* from = table.data + static_cast<size_t>(row) * row_bytes;
  if (DeviceDTypeOf(table.dtype) == table.dtype) {
    std::memcpy(to, from, row_bytes);
  } else {
    DequantizeValues(table.dtype, from, table.columns, reinterpret_cast<float*>(to));
  }
}

}  // namespace

const EmbeddingTables::Table* EmbeddingTables::Find(const WeightView& view) const {
  for (const Table& table : tables_) {
    if (table.view.data == view.data && table.view.dtype == view.dtype &&
        table.view.rows == view.rows && table.view.columns == view.columns) {
      return &table;
    }
  }
  return nullptr;
}

Result<void> EmbeddingTables::Load(const WeightView& table) {
  std::erase_if(tables_, [&](const Table& loaded) { return loaded.view.data == table.data; });
  const DType dtype = DeviceDTypeOf(table.dtype);
  const size_t row_bytes = DTypeBytes(dtype, static_cast<size_t>(table.columns));
  const auto num_rows = static_cast<size_t>(table.rows);
  KVGATE_TRY(memory::DeviceMemory memory,
             memory::DeviceMemory::Allocate(num_rows * row_bytes, "embedding table"));
  const size_t piece_rows = std::clamp<size_t>(kPieceBytes / row_bytes, 1, num_rows);
  KVGATE_TRY(
      const memory::PinnedMemory piece,
      memory::PinnedMemory::Allocate(piece_rows * row_bytes, "upload of the embedding table"));
  for (size_t row = 0; row < num_rows; row += piece_rows) {
    const size_t count = std::min(piece_rows, num_rows - row);
    for (size_t i = 0; i < count; ++i) {
      WriteRow(table, static_cast<int64_t>(row + i), piece.data() + i * row_bytes);
    }
    memory.CopyIn({piece.data(), count * row_bytes}, row * row_bytes);
  }
  if (table.is_file_mapping) {
    DropPages({table.data, num_rows * DTypeBytes(table.dtype, static_cast<size_t>(table.columns))});
  }
  tables_.push_back({.view = table, .dtype = dtype, .memory = std::move(memory)});
  return {};
}

void EmbeddingTables::EmbedRows(const WeightView& table, std::span<const TokenId> ids, float* y) {
  if (ids.empty()) return;
  const Table* loaded = Find(table);
  if (loaded == nullptr) return EmbedStaged(table, ids, y);
  Launch(loaded->dtype, loaded->memory.data(), stream_.Stage(ids), std::ssize(ids), table.columns,
         y);
}

void EmbeddingTables::EmbedStaged(const WeightView& table, std::span<const TokenId> ids, float* y) {
  const DType dtype = DeviceDTypeOf(table.dtype);
  const size_t row_bytes = DTypeBytes(dtype, static_cast<size_t>(table.columns));
  const size_t piece_rows = std::clamp<size_t>(kStagedBytesMax / row_bytes, 1, ids.size());
  std::vector<std::byte> rows;
  std::vector<TokenId> places;
  for (size_t begin = 0; begin < ids.size(); begin += piece_rows) {
    const size_t count = std::min(piece_rows, ids.size() - begin);
    rows.resize(count * row_bytes);
    places.resize(count);
    for (size_t i = 0; i < count; ++i) {
      WriteRow(table, ids[begin + i], rows.data() + i * row_bytes);
      places[i] = static_cast<TokenId>(i);
    }
    stream_.ReserveStaging(device::CommandStream::StagedBytes(rows.size()) +
                           device::CommandStream::StagedBytes(count * sizeof(TokenId)));
    const auto* staged = stream_.Stage<std::byte>(rows);
    Launch(dtype, staged, stream_.Stage<TokenId>(places), static_cast<int64_t>(count),
           table.columns, y + static_cast<int64_t>(begin) * table.columns);
  }
}

void EmbeddingTables::Launch(DType dtype, const std::byte* rows, const TokenId* ids,
                             int64_t num_ids, int64_t columns, float* y) {
  const int64_t runs_per_row = (columns + kRunFloats - 1) / kRunFloats;
  const int64_t num_runs = num_ids * runs_per_row;
  KVGATE_CHECK(num_runs <= std::numeric_limits<uint32_t>::max(), "too many embedded values");
  const EmbedArgument argument{.rows = rows,
                               .ids = ids,
                               .y = y,
                               .columns = columns,
                               .row_bytes = DTypeBytes(dtype, static_cast<size_t>(columns)),
                               .num_ids = static_cast<uint32_t>(num_ids),
                               .runs_per_row = static_cast<uint32_t>(runs_per_row),
                               .is_aligned = AreRunsAligned(columns, y)};
  const int64_t num_blocks = std::clamp<int64_t>((num_runs + kThreads - 1) / kThreads, 1,
                                                 num_multiprocessors_ * kBlocksPerMultiprocessor);
  stream_.Launch(KernelOf(dtype),
                 {.grid = dim3(static_cast<unsigned int>(num_blocks)), .threads = kThreads},
                 argument);
}

}  // namespace kvgate::kernels::cuda::rows
