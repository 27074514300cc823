#include "gateway/bench/bench_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "engine/model/make_model.h"
#include "tests/engine/model/test_paths.h"

namespace kvgate::bench {
namespace {

using ::testing::HasSubstr;

TEST(BenchTokenizerTest, EncodingIsPrintedBesideItsBounds) {
  const TempFolder directory;
  ASSERT_TRUE(model::MakeModel({.architecture = "qwen2",
                                .num_layers = 1,
                                .hidden_dim = 64,
                                .num_heads = 4,
                                .num_kv_heads = 2,
                                .vocab_size = 600,
                                .name = ""},
                               directory / "made.gguf"));
  std::ofstream(directory / "text") << "Some words, and some more of them.\n";
  char* text = nullptr;
  size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  const Result<void> run = RunBenchTokenizer({.model_path = directory / "made.gguf",
                                              .text_path = directory / "text",
                                              .seconds = 0.01,
                                              .out = out});
  std::fclose(out);
  const std::string printed(text, size);
  std::free(text);
  ASSERT_TRUE(run) << run.error().ToString();
  for (const char* line : {"encode", "cut into words", "PCRE2", "decode", "read every byte"}) {
    EXPECT_THAT(printed, HasSubstr(line));
  }
}

TEST(BenchTokenizerTest, AMissingTextIsNamed) {
  const Result<void> run = RunBenchTokenizer({.model_path = {}, .text_path = "/no/such/text"});
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(run.error().detail, HasSubstr("/no/such/text"));
}

}  // namespace
}  // namespace kvgate::bench
