#include "kernels/cuda/matmul/wgmma_self_test.h"

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/cuda/device/device_error.h"
#include "kernels/cuda/matmul/matmul_kernels.h"
#include "kernels/cuda/matmul/packed_weight.h"
#include "kernels/cuda/memory/device_memory.h"

namespace kvgate::kernels::cuda::matmul {
namespace {

constexpr int kRows = 192;
constexpr int kOutputs = 128;
constexpr int kColumns = 512;

// Values with random signs, 11-bit mantissas and exponents of -10 to 0, so that a sum depends on
// the order and rounding of its additions.
std::vector<float> ApartValues(size_t count, uint64_t random) {
  std::vector<float> values(count);
  for (float& value : values) {
    random = random * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX
    const auto mantissa = static_cast<float>(1024 + (random >> 40 & 1023));
    const float magnitude = std::ldexp(mantissa, -10 - static_cast<int>((random >> 50) % 11));
    value = (random >> 63) != 0 ? -magnitude : magnitude;
  }
  return values;
}

// Device memory, split into parts aligned to 256 bytes.
struct Numbers {
  memory::DeviceMemory memory;
  size_t bytes = 0;

  template <typename T>
  T* Take(size_t count) {
    std::byte* at = memory.data() + bytes;
    bytes += (count * sizeof(T) + 255) / 256 * 256;
    return reinterpret_cast<T*>(at);
  }
};

}  // namespace

Result<bool> WarpgroupsAddAlike(device::CommandStream& stream) {
  const std::vector<float> weight_values = ApartValues(size_t{kOutputs} * kColumns, 1);
  std::vector<uint16_t> weight_halves;
  for (const float value : weight_values) weight_halves.push_back(F32ToF16(value));
  WeightPacker packer;
  KVGATE_TRY(const std::unique_ptr<PackedWeight> weight,
             packer.Pack({.dtype = DType::kF16,
                          .data = reinterpret_cast<const std::byte*>(weight_halves.data()),
                          .rows = kOutputs,
                          .columns = kColumns},
                         PackedKind::kHalves));
  Numbers numbers;
  KVGATE_TRY(numbers.memory,
             memory::DeviceMemory::Allocate(size_t{1} << 20, "a trial of instructions"));
  const std::vector<float> x_values = ApartValues(size_t{kRows} * kColumns, 2);
  auto* x = numbers.Take<float>(x_values.size());
  InputRows rows{.x = x,
                 .columns = kColumns,
                 .halves = {.values = numbers.Take<uint16_t>(x_values.size()),
                            .scales = numbers.Take<float>(kRows),
                            .num_rows = kRows,
                            .padded_columns = kColumns}};
  auto* y = numbers.Take<float>(size_t{kRows} * kOutputs);
  device::CheckDevice(cudaMemcpyAsync(x, x_values.data(), x_values.size() * sizeof(float),
                                      cudaMemcpyHostToDevice, stream.stream()),
                      "copy numbers to the device");
  Product product = ProductOf(*weight);
  product.y = y;
  const auto sums = [&] {
    std::vector<float> values(size_t{kRows} * kOutputs);
    stream.Synchronize();
    device::CheckDevice(
        cudaMemcpy(values.data(), y, values.size() * sizeof(float), cudaMemcpyDeviceToHost),
        "copy sums from the device");
    return values;
  };
  LaunchPackRows(rows, ColumnOrder::kNatural, stream);
  LaunchManyRows(PackedKind::kHalves, rows.halves, {&product, 1}, false, size_t{200} << 10, stream);
  const std::vector<float> want = sums();
  LaunchPackRows(rows, ColumnOrder::kSteps, stream);
  for (const int rows_of_block : {128, 192}) {
    stream.Fill(y, 0xff, want.size() * sizeof(float));
    LaunchWarpgroupRows(PackedKind::kHalves, rows.halves, {&product, 1},
                        {.rows_of_block = rows_of_block,
                         .num_row_blocks = (kRows + rows_of_block - 1) / rows_of_block},
                        stream);
    if (std::memcmp(sums().data(), want.data(), want.size() * sizeof(float)) != 0) return false;
  }
  return true;
}

}  // namespace kvgate::kernels::cuda::matmul
