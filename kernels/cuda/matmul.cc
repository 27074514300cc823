#include "kernels/cuda/matmul.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <kvgate/check.h>

#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/matmul_kernels.h"
#include "kernels/cuda/packed_weight.h"

namespace kvgate::kernels::cuda {
namespace {

// So few rows are made into f16 by every block for itself: a launch costs more.
constexpr int kOwnRows = 2;
// Scratch begins with enough for a row of any width and grows to what keeps a device busy.
constexpr size_t kScratchBytesMin = size_t{4} << 20;
constexpr size_t kHalvesBytesMax = size_t{128} << 20;
constexpr size_t kPartsBytesMax = size_t{64} << 20;
constexpr int kRowsAligned = 128;  // pieces of x begin at blocks

const PackedWeight& Packed(const MatMulTask& task) {
  return static_cast<const PackedWeight&>(*task.weight);
}

// Memory that grows while nothing uses it. Where it cannot, it stays.
class Scratch {
 public:
  Scratch(CommandStream& stream, std::string purpose)
      : stream_(stream), purpose_(std::move(purpose)) {}

  Result<size_t> Allocate(size_t bytes) {
    KVGATE_TRY(memory_, DeviceMemory::Allocate(bytes, purpose_));
    return bytes;
  }
  // Bytes there are afterwards: at least `bytes`, or what there was.
  size_t Grow(size_t bytes) {
    if (bytes <= memory_.size() || bytes <= bytes_refused_) return memory_.size();
    stream_.Synchronize();
    auto grown = DeviceMemory::Allocate(bytes, purpose_);
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
  DeviceMemory memory_;
  size_t bytes_refused_ = 0;
};

class PackedMatMul final : public DeviceMatMul {
 public:
  PackedMatMul(const DeviceMatMulOptions& options, CommandStream& stream)
      : options_(options),
        stream_(stream),
        halves_(stream, "activations in f16"),
        parts_(stream, "partial sums") {}

  Result<size_t> AllocateScratch() { return halves_.Allocate(kScratchBytesMin); }

  Result<std::unique_ptr<Weight>> LoadWeight(const WeightView& view) override {
    KVGATE_TRY(std::unique_ptr<Weight> weight, packer_.Pack(view, PackedKindOf(view.dtype)));
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
          .columns = static_cast<int>(columns),
          .halves = {.values = values,
                     .scales = reinterpret_cast<const float*>(values + count * padded),
                     .num_rows = count,
                     .padded_columns = static_cast<int>(padded)}};
      RunRows(rows, first, tasks);
    }
  }

 private:
  static Product ProductOf(const MatMulTask& task, int first_row) {
    const PackedWeight& weight = Packed(task);
    const uint32_t offset = 0x6400u + static_cast<uint32_t>(weight.offset());  // 1024 in f16 + it
    return {.weight = weight.data(),
            .row_scales = weight.row_scales(),
            .bias = task.bias,
            .y = task.y + first_row * weight.rows(),
            .rows = static_cast<int>(weight.rows()),
            .num_tiles = weight.num_tiles(),
            .num_units = weight.num_units(),
            .offset_pair = offset | offset << 16,
            .accumulates = task.accumulate ? 1u : 0u};
  }

  void RunRows(const InputRows& rows, int first_row, std::span<const MatMulTask> tasks) {
    const int num_rows = rows.halves.num_rows;
    std::vector<std::pair<PackedKind, std::vector<Product>>> kinds;
    for (const MatMulTask& task : tasks) {
      const Product product = ProductOf(task, first_row);
      const PackedKind kind = Packed(task).kind();
      if (kind == PackedKind::kFloats) {
        LaunchFloatRows(rows.x, num_rows, rows.columns, product, stream_);
        continue;
      }
      auto found = std::find_if(kinds.begin(), kinds.end(),
                                [kind](const auto& entry) { return entry.first == kind; });
      if (found == kinds.end()) found = kinds.insert(kinds.end(), {kind, {}});
      found->second.push_back(product);
    }
    if (kinds.empty()) return;
    const size_t bytes = static_cast<size_t>(num_rows) * rows.halves.padded_columns * 2;
    const bool is_few = num_rows <= kFewRows && bytes <= kFewRowsBytesMax;
    const bool is_packed = !is_few || num_rows > kOwnRows;
    if (is_packed) LaunchPackRows(rows.x, rows.columns, rows.halves, stream_);
    InputRows input = rows;
    if (!is_packed) input.halves.values = nullptr;
    for (auto& [kind, products] : kinds) {
      if (is_few) {
        LaunchFewRows(kind, input, products, stream_);
      } else {
        RunMany(kind, rows.halves, products);
      }
    }
  }

  void RunMany(PackedKind kind, const HalfRows& x, std::span<Product> products) {
    int num_splits = SplitsFor(x.num_rows, products);
    if (num_splits > 1) {
      size_t num_parts = 0;
      for (const Product& product : products) num_parts += PartsOf(x, product);
      const size_t bytes = num_parts * sizeof(float);
      if (bytes > kPartsBytesMax || parts_.Grow(bytes) < bytes) num_splits = 1;
    }
    if (num_splits == 1) return LaunchManyRows(kind, x, products, 1, stream_);
    auto* parts = reinterpret_cast<float*>(parts_.data());
    for (Product& product : products) {
      product.parts = parts;
      parts += PartsOf(x, product);
    }
    LaunchManyRows(kind, x, products, num_splits, stream_);
    LaunchAddParts(x, products, stream_);
  }

  static size_t PartsOf(const HalfRows& x, const Product& product) {
    return static_cast<size_t>(kSegments) * x.num_rows * product.num_tiles * kTileRows;
  }

  // As many blocks as three quarters of the multiprocessors, if segments allow it.
  int SplitsFor(int num_rows, std::span<const Product> products) const {
    const int rows_of_block = RowsOfBlock(num_rows);
    int num_blocks = 0;
    for (const Product& product : products) {
      num_blocks += (product.rows + kBlockOutputs - 1) / kBlockOutputs;
    }
    num_blocks *= (num_rows + rows_of_block - 1) / rows_of_block;
    int num_splits = 1;
    while (num_splits < kSegments &&
           num_blocks * num_splits * 4 < options_.num_multiprocessors * 3) {
      num_splits *= 2;
    }
    return num_splits;
  }

  const DeviceMatMulOptions options_;
  CommandStream& stream_;
  WeightPacker packer_;
  Scratch halves_;
  Scratch parts_;
};

}  // namespace

Result<std::unique_ptr<DeviceMatMul>> DeviceMatMul::Open(const DeviceMatMulOptions& options,
                                                         CommandStream& stream) {
  if (options.is_fast) {
    return MakeError(ErrorCode::kUnsupported, "kernels.cuda", "no libcublasLt");
  }
  auto made = std::make_unique<PackedMatMul>(options, stream);
  KVGATE_TRY([[maybe_unused]] const size_t bytes, made->AllocateScratch());
  return std::unique_ptr<DeviceMatMul>(std::move(made));
}

}  // namespace kvgate::kernels::cuda
