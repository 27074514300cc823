#include "gateway/bench/bench_model_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gateway/cli/printed.h"

namespace kvgate::bench {
namespace {

using ::testing::ContainsRegex;

TEST(BenchModelLoadTest, EachTypeGetsALineOfItsFileItsTimesAndItsPeak) {
  BenchModelLoadOptions options = {
      .shape = {.hidden_dim = 256, .ffn_dim = 4096, .vocab_size = 600, .name = ""},
      .types = {"f16", "q4_k"},
      .threads = 1,
      .kv_bytes = 1 << 20,
      .cache_directory = {}};
  const std::string printed = cli::Printed([&](std::FILE* out) {
    options.out = out;
    const Result<bool> run = RunBenchModelLoad(options);
    EXPECT_TRUE(run.has_value()) << run.error().ToString();
  });
  // The columns are the file's MiB, three times or ratios and a share, then two sizes and a share.
  EXPECT_THAT(printed, ContainsRegex("\nf16 +2[0-9] +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9]+% +[0-9]+ +"
                                     "2[0-9][0-9] +[0-9]+%\n"));
  EXPECT_THAT(printed, ContainsRegex("\nq4_k +[78] "));
}

TEST(BenchModelLoadTest, OptionsWithoutWorkAreRefused) {
  EXPECT_EQ(RunBenchModelLoad({.repetitions = 0, .cache_directory = {}}).error().field,
            "repetitions");
  EXPECT_EQ(RunBenchModelLoad({.types = {"q9"}, .cache_directory = {}}).error().field, "types");
}

}  // namespace
}  // namespace kvgate::bench
