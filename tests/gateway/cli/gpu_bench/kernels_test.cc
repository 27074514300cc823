#include "gateway/bench/gpu/kernels.h"

#include <gtest/gtest.h>

#include <thread>

namespace kvgate::cli::gpu_bench {
namespace {

TEST(KernelsTest, ARowOfCallsIsAsLongAsItMustBeAndEachHasItsNumber) {
  const auto backend = *OpenBackend({.is_cuda = false, .cpu_threads = 1});
  int last = 0;
  const double seconds = SecondsPerCall(*backend, 0.02, [&](int call) {
    last = call;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  EXPECT_GE(seconds, 0.001);
  EXPECT_LT(seconds, 0.02);
  EXPECT_GE(last, 3);
}

TEST(KernelsTest, EachProductAndEachAttentionHasAFigureBesideWhatBoundsIt) {
  const auto run = Run::Open({.shape = "tiny",
                              .is_cuda = false,
                              .is_quick = true,
                              .is_json = true,
                              .cpu_threads = 1,
                              .progress = nullptr});
  ASSERT_TRUE(run.has_value()) << run.error().ToString();
  const auto file = (*run)->MakeFile("q8_0");
  ASSERT_TRUE(file.has_value()) << file.error().ToString();
  const auto done = MeasureKernels(**run, *file, {.dtype = "q8_0"});
  ASSERT_TRUE(done.has_value()) << done.error().ToString();
  // Four matrices with 1, 16 and 512 rows, the output with two numbers; attention decoding
  // over KV of three dtypes, two numbers each, and of a step.
  EXPECT_EQ((*run)->figures().figures().size(), 4u * 3 + 2 + 3 * 2 + 1);
  for (const Figure& figure : (*run)->figures().figures()) {
    EXPECT_GT(figure.measured, 0) << figure.name;
    EXPECT_GT(figure.limit, 0) << figure.name;
  }
}

}  // namespace
}  // namespace kvgate::cli::gpu_bench
