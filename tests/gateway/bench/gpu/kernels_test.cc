#include "gateway/bench/gpu/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace kvgate::bench::gpu {
namespace {

TEST(KernelsTimingTest, ARowOfCallsIsAsLongAsItMustBeAndEachHasItsNumber) {
  const auto backend = *OpenBackend({.is_cuda = false, .cpu_threads = 1});
  int last = 0;
  std::chrono::duration<double> longest{};
  const double seconds = SecondsPerCall(*backend, 0.02, [&](int call) {
    last = call;
    const auto began = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    longest =
        std::max<std::chrono::duration<double>>(longest, std::chrono::steady_clock::now() - began);
  });
  EXPECT_GE(seconds, 0.001);
  EXPECT_LT(seconds, 2 * longest.count());
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
  // Each of four matrices has a figure for 1, 16 and 512 rows, and the output has two; decode
  // attention has two for each of three KV dtypes, and attention of a prefill step has one.
  EXPECT_EQ((*run)->figures().figures().size(), 4u * 3 + 2 + 3 * 2 + 1);
  for (const Figure& figure : (*run)->figures().figures()) {
    EXPECT_GT(figure.measured, 0) << figure.name;
    EXPECT_GT(figure.limit, 0) << figure.name;
  }
}

}  // namespace
}  // namespace kvgate::bench::gpu
