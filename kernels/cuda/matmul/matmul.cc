#include "kernels/cuda/matmul/matmul.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/cuda/matmul/cublas_lt.h"
#include "kernels/cuda/matmul/matmul_kernels.h"
#include "kernels/cuda/matmul/packed_weight.h"
#include "kernels/cuda/matmul/wgmma_self_test.h"
#include "kernels/cuda/memory/device_memory.h"

namespace kvgate::kernels::cuda::matmul {

using device::CommandStream;

namespace {

// Up to this many rows, every block converts them to f16 itself, because a launch would cost more.
constexpr int kOwnRows = 2;
// Scratch initially holds a row of any width and grows to a size that keeps a device busy.
constexpr size_t kScratchBytesMin = size_t{4} << 20;
constexpr size_t kHalvesBytesMax = size_t{128} << 20;
constexpr size_t kPartsBytesMax = size_t{64} << 20;
constexpr int kRowsAligned = 384;  // pieces of x start at whole blocks
// So few rows cannot keep a device busy with large blocks; blocks of 64 rows are used for them.
constexpr int kRowsOfSmallBlocks = 64;

// The products of one call, grouped by kind.
using KindProducts = std::vector<std::pair<PackedKind, std::vector<Product>>>;

const PackedWeight& Packed(const MatMulTask& task) {
  return static_cast<const PackedWeight&>(*task.weight);
}

// Memory that grows while it is not in use. If growing fails, it keeps its size.
class Scratch {
 public:
  Scratch(CommandStream& stream, std::string purpose)
      : stream_(stream), purpose_(std::move(purpose)) {}

  Result<size_t> Allocate(size_t bytes) {
    KVGATE_TRY(memory_, memory::DeviceMemory::Allocate(bytes, purpose_));
    return bytes;
  }
  // Returns the size afterwards: at least `bytes`, or the old size if growing failed.
  size_t Grow(size_t bytes) {
    if (bytes <= memory_.size() || bytes <= bytes_refused_) return memory_.size();
    stream_.Synchronize();
    auto grown = memory::DeviceMemory::Allocate(bytes, purpose_);
    if (grown) {
      memory_ = std::move(*grown);
    } else {
      bytes_refused_ = bytes;
    }
    return memory_.size();
  }
  std::byte* data() const { return memory_.data(); }

 private:
  CommandStream& stream_;
  std::string purpose_;
  memory::DeviceMemory memory_;
  size_t bytes_refused_ = 0;
};

class PackedMatMul final : public DeviceMatMul {
 public:
  // `cublas` is null for invariant numerics.
  PackedMatMul(const DeviceMatMulOptions& options, CommandStream& stream,
               std::unique_ptr<CublasLt> cublas)
      : options_(options),
        stream_(stream),
        cublas_(std::move(cublas)),
        halves_(stream, "activations in f16"),
        parts_(stream, "partial sums") {}

  // Allocates what Run needs at least, because Run cannot fail.
  Result<size_t> AllocateScratch() {
    if (cublas_ != nullptr) {
      KVGATE_TRY([[maybe_unused]] const size_t bytes, parts_.Allocate(kScratchBytesMin));
    }
    return halves_.Allocate(kScratchBytesMin);
  }

  void UseWarpgroups() { uses_warpgroups_ = true; }
  bool uses_warpgroups() const override { return uses_warpgroups_; }

  Result<std::unique_ptr<Weight>> LoadWeight(const WeightView& view) override {
    PackedKind kind = PackedKindOf(view.dtype);
    // cuBLASLt cannot be used for experts, because the host does not know which expert was
    // selected.
    if (kind == PackedKind::kHalves && cublas_ != nullptr && !view.is_expert) {
      kind = PackedKind::kPlainHalves;
    }
    KVGATE_TRY(std::unique_ptr<Weight> weight, packer_.Pack(view, kind));
    return weight;
  }

  void Run(const float* x, int num_rows, std::span<const MatMulTask> tasks) override {
    if (num_rows == 0 || tasks.empty()) return;
    const int64_t columns = tasks[0].weight->columns();
    const int64_t padded = (columns + kPaddedColumns - 1) / kPaddedColumns * kPaddedColumns;
    const size_t row_bytes = static_cast<size_t>(padded) * 2 + sizeof(float);
    const size_t wanted = std::min(row_bytes * static_cast<size_t>(num_rows), kHalvesBytesMax);
    auto rows_at_once = static_cast<int>(
        std::min<size_t>(halves_.Grow(wanted) / row_bytes, static_cast<size_t>(num_rows)));
    if (rows_at_once < num_rows && rows_at_once > kRowsAligned) {
      rows_at_once -= rows_at_once % kRowsAligned;
    }
    KVGATE_CHECK(rows_at_once > 0, "a row of x fits the scratch");
    for (int first = 0; first < num_rows; first += rows_at_once) {
      const int count = std::min(rows_at_once, num_rows - first);
      auto* values = reinterpret_cast<uint16_t*>(halves_.data());
      const InputRows rows{
          .x = x + first * columns,
          .columns = columns,
          .halves = {.values = values,
                     .scales = reinterpret_cast<const float*>(values + count * padded),
                     .num_rows = count,
                     .padded_columns = static_cast<int>(padded)}};
      RunRows(rows, first, tasks);
    }
  }

 private:
  static Product ProductOf(const MatMulTask& task, int first_row) {
    Product product = matmul::ProductOf(Packed(task));
    product.bias = task.bias;
    product.y = task.y + first_row * task.weight->rows();
    product.accumulates = task.accumulate ? 1u : 0u;
    return product;
  }

  void RunRows(const InputRows& rows, int first_row, std::span<const MatMulTask> tasks) {
    const int num_rows = rows.halves.num_rows;
    KindProducts kinds;
    for (const MatMulTask& task : tasks) {
      const Product product = ProductOf(task, first_row);
      const PackedKind kind = Packed(task).kind();
      if (kind == PackedKind::kFloats) {
        LaunchFloatRows(rows.x, num_rows, static_cast<int>(rows.columns), product, stream_);
        continue;
      }
      auto found = std::find_if(kinds.begin(), kinds.end(),
                                [kind](const auto& entry) { return entry.first == kind; });
      if (found == kinds.end()) found = kinds.insert(kinds.end(), {kind, {}});
      found->second.push_back(product);
    }
    if (kinds.empty()) return;
    const size_t bytes = static_cast<size_t>(num_rows) * rows.halves.padded_columns * 2;
    const size_t few_bytes_max =
        std::min(kFewRowsBytesMax, options_.shared_bytes_max - kFewRowsRestBytesMax);
    const bool is_few = num_rows <= kFewRows && bytes <= few_bytes_max;
    const bool is_packed = !is_few || num_rows > kOwnRows;
    const bool is_grouped = !is_few && AreForWarpgroups(num_rows, kinds);
    if (is_packed) {
      LaunchPackRows(rows, is_grouped ? ColumnOrder::kSteps : ColumnOrder::kNatural, stream_);
    }
    InputRows input = rows;
    if (!is_packed) input.halves.values = nullptr;
    for (auto& [kind, products] : kinds) {
      if (is_few) {
        LaunchFewRows(kind, input, products, stream_);
      } else if (kind == PackedKind::kPlainHalves) {
        for (const Product& product : products) RunCublas(rows.halves, product);
      } else if (is_grouped) {
        LaunchWarpgroupRows(kind, rows.halves, products, ShapeFor(kind, num_rows, products),
                            stream_);
      } else {
        RunMany(kind, rows.halves, products);
      }
    }
  }

  WarpgroupShape ShapeFor(PackedKind kind, int num_rows, std::span<const Product> products) const {
    return WarpgroupShapeOf(kind, num_rows, products, options_.num_multiprocessors);
  }

  // Decides for a whole call, because x is packed only once.
  bool AreForWarpgroups(int num_rows, const KindProducts& kinds) const {
    return uses_warpgroups_ && num_rows > kRowsOfSmallBlocks &&
           std::all_of(kinds.begin(), kinds.end(), [&](const auto& entry) {
             return entry.first != PackedKind::kPlainHalves &&
                    FillsDevice(ShapeFor(entry.first, num_rows, entry.second).num_blocks);
           });
  }
  // With blocks for fewer than three quarters of the multiprocessors, splitting segments is better.
  bool FillsDevice(int num_blocks) const {
    return num_blocks * 4 >= options_.num_multiprocessors * 3;
  }

  void RunMany(PackedKind kind, const HalfRows& x, std::span<Product> products) {
    if (!IsSplit(x, products)) {
      return LaunchManyRows(kind, x, products, false, options_.shared_bytes_max, stream_);
    }
    auto* parts = reinterpret_cast<float*>(parts_.data());
    for (Product& product : products) {
      product.parts = parts;
      parts += PartsOf(x, product);
    }
    LaunchManyRows(kind, x, products, true, options_.shared_bytes_max, stream_);
    LaunchAddParts(x, products, stream_);
  }

  // If the old y is added, the sums need separate memory and are computed in pieces.
  void RunCublas(const HalfRows& x, Product product) {
    const size_t row_bytes = static_cast<size_t>(product.rows) * sizeof(float);
    size_t rows_at_once = static_cast<size_t>(x.num_rows);
    if (product.accumulates != 0) {
      const size_t bytes = parts_.Grow(std::min(row_bytes * rows_at_once, kPartsBytesMax));
      rows_at_once = std::min(rows_at_once, bytes / row_bytes);
      KVGATE_CHECK(rows_at_once > 0, "a row of sums fits the scratch");
    }
    HalfRows piece = x;
    for (int first = 0; first < x.num_rows; first += piece.num_rows) {
      piece.num_rows = std::min(static_cast<int>(rows_at_once), x.num_rows - first);
      product.parts =
          product.accumulates != 0 ? reinterpret_cast<float*>(parts_.data()) : product.y;
      cublas_->Note(
          {.weight = product.weight,
           .x = piece.values,
           .sums = product.parts,
           .num_rows = piece.num_rows,
           .num_outputs = product.rows,
           .columns = int64_t{product.num_units} * ShapeOf(PackedKind::kPlainHalves).unit_columns(),
           .x_row_columns = x.padded_columns});
      LaunchFinishRows(piece, product, stream_);
      piece.values += int64_t{piece.num_rows} * x.padded_columns;
      piece.scales += piece.num_rows;
      product.y += int64_t{piece.num_rows} * product.rows;
    }
  }

  static size_t PartsOf(const HalfRows& x, const Product& product) {
    return static_cast<size_t>(kSegments) * x.num_rows * product.num_tiles * kTileRows;
  }

  // Segments are split if there are few blocks and enough memory for the partial sums.
  bool IsSplit(const HalfRows& x, std::span<const Product> products) {
    const int rows_of_block = RowsOfBlock(x.num_rows);
    const int num_row_blocks = (x.num_rows + rows_of_block - 1) / rows_of_block;
    int num_blocks = 0;
    size_t num_parts = 0;
    for (const Product& product : products) {
      num_blocks += (product.rows + kBlockOutputs - 1) / kBlockOutputs * num_row_blocks;
      num_parts += PartsOf(x, product);
    }
    if (FillsDevice(num_blocks)) return false;
    const size_t bytes = num_parts * sizeof(float);
    return bytes <= kPartsBytesMax && parts_.Grow(bytes) >= bytes;
  }

  const DeviceMatMulOptions options_;
  CommandStream& stream_;
  const std::unique_ptr<CublasLt> cublas_;
  WeightPacker packer_;
  Scratch halves_;
  Scratch parts_;
  bool uses_warpgroups_ = false;
};

}  // namespace

Product ProductOf(const PackedWeight& weight) {
  // 1024 in f16 plus the offset
  const uint32_t offset = 0x6400u + static_cast<uint32_t>(weight.offset());
  return {.weight = weight.data(),
          .row_scales = weight.row_scales(),
          .rows = static_cast<int>(weight.rows()),
          .num_tiles = weight.num_tiles(),
          .num_units = weight.num_units(),
          .offset_pair = offset | offset << 16};
}

Result<std::unique_ptr<DeviceMatMul>> DeviceMatMul::Open(const DeviceMatMulOptions& options,
                                                         CommandStream& stream) {
  std::unique_ptr<CublasLt> cublas;
  if (options.is_fast) {
    KVGATE_TRY(cublas, CublasLt::Open(stream));
  }
  auto made = std::make_unique<PackedMatMul>(options, stream, std::move(cublas));
  KVGATE_TRY([[maybe_unused]] const size_t bytes, made->AllocateScratch());
  if (options.has_warpgroups) {
    KVGATE_TRY(const bool add_alike, WarpgroupsAddAlike(stream));
    if (add_alike) made->UseWarpgroups();
  }
  return std::unique_ptr<DeviceMatMul>(std::move(made));
}

}  // namespace kvgate::kernels::cuda::matmul
