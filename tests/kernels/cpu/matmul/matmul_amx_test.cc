#include "kernels/cpu/matmul/matmul_amx.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/machine/amx.h"
#include "tests/kernels/test_tensors.h"

namespace kvgate::kernels::cpu::matmul {
namespace {

// Products of every quantized format must have the bits of the plainest target that sums like AMX,
// for numbers of rows and columns around the sizes of tiles and blocks, and for all kinds of
// values.
TEST(MultiplyAmxTest, TilesHaveTheBitsOfVectors) {
  const std::vector<std::string> targets = SupportedCpuTargets();
  if (targets.front() != "AMX") GTEST_SKIP() << machine::WhyNoAmx();
  auto tiles = MakeCpuBackend({.num_threads = 2, .target = "AMX"});
  auto vectors = MakeCpuBackend({.num_threads = 1, .target = "AVX2"});
  ASSERT_TRUE(tiles.has_value() && vectors.has_value());
  uint64_t seed = 27;
  for (const DType dtype : kWeightDTypes) {
    const auto step = static_cast<int64_t>(DTypeElements(dtype));
    if (step == 1) continue;
    for (const int64_t columns : {step, 3 * step, (512 / step + 1) * step}) {
      for (const int64_t outputs : {1, 16, 33, 300}) {
        const TestWeight weight(dtype, outputs, columns, ++seed);
        const auto tiled = Load(**tiles, weight);
        const auto plain = Load(**vectors, weight);
        const std::vector<float> bias = NormalValues(outputs, ++seed);
        for (const int num_rows : {7, 8, 16, 17, 47}) {
          const std::vector<float> x = HostileRows(num_rows, columns, ++seed);
          std::vector<float> want = NormalValues(outputs * num_rows, ++seed);
          std::vector<float> got = want;
          for (const bool accumulate : {false, true}) {
            const MatMulTask expected{plain.get(), bias.data(), want.data(), accumulate};
            const MatMulTask task{tiled.get(), bias.data(), got.data(), accumulate};
            (*vectors)->MatMul(x.data(), num_rows, {&expected, 1});
            (*tiles)->MatMul(x.data(), num_rows, {&task, 1});
            ExpectSameBits(want, got, outputs);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvgate::kernels::cpu::matmul
