// Tests of mixtures on the device beyond the conformance suite: the host never waits, and a step's
// commands do not depend on the experts chosen.
#include "kernels/cuda/experts/device_experts.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device/runtime.h"
#include "tests/kernels/test_experts.h"

namespace kvgate::kernels::cuda::experts {
namespace {

// One count for each code path: a single row, few rows, and many rows per block.
constexpr int kRowCounts[] = {1, 4, 9, 40, 90};

TEST(DeviceExpertsTest, StepsOfSoManyRowsAreOneGraphWhoeverIsChosen) {
  const MixtureOptions options = {.shared_dim = 64,
                                  .has_shared_router = true,
                                  .dtypes = {DType::kQ4_0, DType::kF16, DType::kF32}};
  const TestMixture mixture(options);
  for (const int num_rows : kRowCounts) {
    SCOPED_TRACE(testing::Message() << "rows " << num_rows);
    const auto backend = std::move(*MakeCudaBackend({}));
    LoadedMixture loaded(*backend, mixture, num_rows);
    TestFloats x(*backend, static_cast<size_t>(num_rows * options.hidden_dim));
    TestFloats y(*backend, std::vector<float>(static_cast<size_t>(num_rows * options.hidden_dim)));
    for (uint64_t step = 0; step < 4; ++step) {
      backend->CopyIn(MixtureRows(options, num_rows, step), x.data());
      const emulator::Counts before = emulator::CurrentCounts();
      loaded.Mix(x.data(), num_rows, 1, y.data());
      const emulator::Counts issued = emulator::CurrentCounts();
      backend->Synchronize();
      const emulator::Counts after = emulator::CurrentCounts();
      // The first step waits if the shared expert's product needs more scratch than there was, and
      // a graph is only made when a step is repeated.
      if (step < 2) continue;
      EXPECT_EQ(issued.num_waits, before.num_waits);
      EXPECT_EQ(after.num_graphs, before.num_graphs + 1);
      EXPECT_EQ(after.num_launches, before.num_launches);
    }
  }
}

TEST(DeviceExpertsTest, ItsMemoryIsRefusedWhereThereIsNone) {
  const auto backend = std::move(*MakeCudaBackend({}));
  const ExpertShape shape = {.num_experts = 8, .num_used = 2, .hidden_dim = 4096, .ffn_dim = 14336};
  const auto refused = backend->AllocateExpertScratch(shape, 1 << 20);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kOverloaded);
}

}  // namespace
}  // namespace kvgate::kernels::cuda::experts
