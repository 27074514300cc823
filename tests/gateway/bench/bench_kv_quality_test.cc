#include "gateway/bench/bench_kv_quality.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "gateway/bench/bench_file.h"

namespace kvgate::bench {
namespace {

using ::testing::HasSubstr;

std::string Printed(BenchKvQualityOptions options) {
  char* text = nullptr;
  size_t size = 0;
  options.out = open_memstream(&text, &size);
  const Result<void> run = RunBenchKvQuality(options);
  EXPECT_TRUE(run.has_value()) << run.error().ToString();
  std::fclose(options.out);
  const std::string printed(text, size);
  std::free(text);
  return printed;
}

// Returns the numbers of each line by the line's name; the first line of a name counts.
std::map<std::string, std::vector<double>> Lines(const std::string& printed) {
  std::map<std::string, std::vector<double>> lines;
  std::istringstream stream(printed);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line.substr(std::min<size_t>(line.size(), 22)));
    std::string name = line.substr(0, 22);
    name.erase(name.find_last_not_of(' ') + 1);
    std::vector<double> numbers;
    for (std::string word; words >> word;) numbers.push_back(std::atof(word.c_str()));
    lines.emplace(name, numbers);
  }
  return lines;
}

TEST(BenchKvQualityTest, SmallerKvIsFurtherFromF32AndSaysWhatItSaves) {
  const auto model = BenchFile::Make({.num_layers = 2,
                                      .hidden_dim = 128,
                                      .num_heads = 4,
                                      .num_kv_heads = 2,
                                      .ffn_dim = 256,
                                      .vocab_size = 512,
                                      .name = ""},
                                     {});
  ASSERT_TRUE(model.has_value()) << model.error().ToString();
  const std::string printed = Printed(
      {.model_path = (*model)->path(), .text_path = {}, .num_tokens = 270, .attention_tokens = 70});
  EXPECT_THAT(printed, HasSubstr("270 tokens"));
  EXPECT_THAT(printed, HasSubstr("decode attention over 70 tokens"));
  const auto lines = Lines(printed);
  // 2 layers with K and V of 2 heads of 32 are 256 values per token.
  EXPECT_EQ(lines.at("f32")[0], 1024);
  EXPECT_EQ(lines.at("f32")[1], 0);
  EXPECT_EQ(lines.at("f32")[3], 100);
  EXPECT_EQ(lines.at("f16")[0], 512);
  EXPECT_EQ(lines.at("fp8_e4m3")[0], 256);
  EXPECT_EQ(lines.at("q8_0")[0], 272);
  EXPECT_EQ(lines.at("q4_0")[0], 144);
  EXPECT_GT(lines.at("f16")[1], 0);
  EXPECT_GT(lines.at("q8_0")[1], lines.at("f16")[1]);
  EXPECT_GT(lines.at("fp8_e4m3")[1], lines.at("q8_0")[1]);
  EXPECT_GT(lines.at("q4_0")[1], lines.at("q8_0")[1]);
  // Half of 270 tokens in whole blocks is 128; a quarter is 64.
  for (const std::string policy : {"sliding_window", "attention_sink", "least_attended"}) {
    const auto& half = lines.at(policy + " 128");
    const auto& quarter = lines.at(policy + " 64");
    EXPECT_NEAR(half[0], 1024.0 * 128 / 270, 1) << policy;
    EXPECT_GT(half[1], 0) << policy;
    EXPECT_GT(quarter[1], half[1]) << policy;
  }
}

TEST(BenchKvQualityTest, ADTypeThatDoesNotFitTheHeadsIsSaidSo) {
  const auto model = BenchFile::Make({.num_layers = 1,
                                      .hidden_dim = 128,
                                      .num_heads = 8,
                                      .ffn_dim = 64,
                                      .vocab_size = 300,
                                      .name = ""},
                                     {});
  ASSERT_TRUE(model.has_value()) << model.error().ToString();
  const std::string printed = Printed(
      {.model_path = (*model)->path(), .text_path = {}, .num_tokens = 40, .attention_tokens = 0});
  EXPECT_THAT(printed, HasSubstr("multiple of 32 dimensions only; these have 16"));
}

TEST(BenchKvQualityTest, OptionsWithoutWorkAreRefused) {
  EXPECT_EQ(RunBenchKvQuality({.model_path = {}, .text_path = {}, .num_tokens = 1}).error().field,
            "num_tokens");
  EXPECT_EQ(RunBenchKvQuality({.model_path = {}, .text_path = {}, .threads = 0}).error().field,
            "threads");
  EXPECT_EQ(RunBenchKvQuality({.model_path = "/nowhere.gguf", .text_path = {}}).error().code,
            ErrorCode::kNotFound);
}

}  // namespace
}  // namespace kvgate::bench
