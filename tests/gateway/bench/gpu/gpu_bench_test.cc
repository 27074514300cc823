#include "gateway/bench/gpu/gpu_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cuda/cuda_backend.h"
#include "tests/gateway/cli/printed.h"

namespace kvgate::bench::gpu {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunOptions Tiny() {
  return {
      .shape = "tiny", .is_cuda = false, .is_quick = true, .cpu_threads = 1, .progress = nullptr};
}

// tests/e2e/bench_gpu_test.py runs the whole benchmark.
TEST(GpuBenchTest, OnlyTheWantedPartsRunAndOnlyTheFirstDTypeInAllOfThem) {
  RunOptions options = Tiny();
  options.dtypes = {"bf16", "q8_0"};
  options.parts = {"prefill"};
  const std::string printed = cli::Printed([&](std::FILE* out) {
    options.out = out;
    const auto is_within = RunGpuBench(options);
    ASSERT_TRUE(is_within.has_value()) << is_within.error().ToString();
    EXPECT_TRUE(*is_within);
  });
  EXPECT_THAT(printed, HasSubstr("prefill bf16"));
  EXPECT_THAT(printed, HasSubstr("640 tokens"));
  EXPECT_THAT(printed, HasSubstr("prefill q8_0"));
  EXPECT_THAT(printed, Not(HasSubstr("decode")));
  EXPECT_THAT(printed, HasSubstr("7 figures, 0 missed"));
}

TEST(GpuBenchTest, APartThatFailsLeavesTheOthersAlone) {
  RunOptions options = Tiny();
  options.dtypes = {"bf16", "q8_0"};
  options.parts = {"prefill"};
  options.kv_bytes = 1;  // too little for two blocks
  const std::string printed = cli::Printed([&](std::FILE* out) {
    options.out = out;
    EXPECT_EQ(RunGpuBench(options).error().code, ErrorCode::kInvalidArgument);
  });
  EXPECT_THAT(printed, HasSubstr("\nspeed: FAILED: "));
  EXPECT_THAT(printed, HasSubstr("\nspeed q8_0: FAILED: "));
  EXPECT_THAT(printed, HasSubstr("4 figures, 0 missed"));
}

TEST(GpuBenchTest, WhatIsUnknownIsNamed) {
  RunOptions options = Tiny();
  options.parts = {"dance"};
  EXPECT_EQ(RunGpuBench(options).error().field, "only");
  options = Tiny();
  options.shape = "9b";
  EXPECT_EQ(RunGpuBench(options).error().field, "shape");
  options = Tiny();
  options.minutes = 0;
  EXPECT_EQ(RunGpuBench(options).error().field, "minutes");
  options = Tiny();
  options.dtypes = {};
  EXPECT_EQ(RunGpuBench(options).error().field, "dtype");
}

TEST(GpuBenchTest, WithoutADeviceItSaysSoAndWhatElseToDo) {
  const auto devices = kernels::cuda::FindCudaDevices();
  if (devices && !devices->empty()) GTEST_SKIP() << "there is a device here";
  RunOptions options = Tiny();
  options.is_cuda = true;
  EXPECT_EQ(RunGpuBench(options).error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace kvgate::bench::gpu
