#include "gateway/bench/bench_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "gateway/bench/bench_file.h"
#include "tests/gateway/cli/printed.h"

namespace kvgate::bench {
namespace {

using ::testing::HasSubstr;

TEST(BenchEngineTest, EachDTypeAndThreadCountGetsALineAgainstMeasuredLimits) {
  BenchEngineOptions options = {.shape = {.architecture = "qwen2",
                                          .num_layers = 2,
                                          .hidden_dim = 128,
                                          .vocab_size = 600,
                                          .name = ""},
                                .types = {"q8_0"},
                                .threads = {1, 2},
                                .prompt_tokens = 40,
                                .decode_tokens = 5,
                                .repetitions = 1,
                                .cache_directory = {}};
  const std::string printed = cli::Printed([&](std::FILE* out) {
    options.out = out;
    const Result<void> run = RunBenchEngine(options);
    EXPECT_TRUE(run.has_value()) << run.error().ToString();
  });
  EXPECT_THAT(printed, HasSubstr("pp40 tok/s"));
  EXPECT_THAT(printed, HasSubstr("tg5 tok/s"));
  size_t num_lines = 0;
  for (size_t at = 0; (at = printed.find("\nq8_0", at)) != std::string::npos; ++at) ++num_lines;
  EXPECT_EQ(num_lines, 2u);
}

TEST(BenchEngineTest, AModelOfOnesOwnIsMeasuredAsItIs) {
  const auto file = BenchFile::Make({.num_layers = 1,
                                     .hidden_dim = 128,
                                     .vocab_size = 600,
                                     .context_length = 64,
                                     .name = ""},
                                    {});
  ASSERT_TRUE(file) << file.error().ToString();
  BenchEngineOptions options = {.model_path = (*file)->path(),
                                .threads = {1},
                                .prompt_tokens = 40,
                                .decode_tokens = 5,
                                .repetitions = 1,
                                .cache_directory = {}};
  const std::string printed = cli::Printed([&](std::FILE* out) {
    options.out = out;
    const Result<void> run = RunBenchEngine(options);
    EXPECT_TRUE(run.has_value()) << run.error().ToString();
  });
  EXPECT_THAT(printed, HasSubstr("\nas it is       1 "));
  options.prompt_tokens = 65;
  cli::Printed([&](std::FILE* out) {
    options.out = out;
    EXPECT_EQ(RunBenchEngine(options).error().field, "prompt_tokens");
    options.model_path = "missing.gguf";
    EXPECT_EQ(RunBenchEngine(options).error().code, ErrorCode::kNotFound);
  });
}

TEST(BenchEngineTest, OptionsWithoutWorkAreRefused) {
  EXPECT_EQ(RunBenchEngine({.repetitions = 0, .cache_directory = {}}).error().field, "repetitions");
  EXPECT_EQ(RunBenchEngine({.threads = {0}, .cache_directory = {}}).error().field, "threads");
  EXPECT_EQ(RunBenchKvCache({.model_path = {}, .num_tokens = 0}).error().field, "num_tokens");
}

TEST(BenchEngineTest, TheKvCacheSavesAllButOneForwardPerTokenAndChangesNoText) {
  const std::string printed = cli::Printed([](std::FILE* out) {
    const Result<void> run = RunBenchKvCache({.model_path = {}, .num_tokens = 40, .out = out});
    EXPECT_TRUE(run.has_value()) << run.error().ToString();
  });
  EXPECT_THAT(printed, HasSubstr("  40 "));
  EXPECT_THAT(printed, HasSubstr(" 820 "));  // 40 * 41 / 2
  EXPECT_THAT(printed, HasSubstr("work 20.5x"));
  EXPECT_THAT(printed, HasSubstr("texts identical"));
}

}  // namespace
}  // namespace kvgate::bench
