#include "engine/model/roofline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace kvgate::model {
namespace {

constexpr MachineSpeed kMachine = {
    .name = "test", .operations_per_second = 1e14, .bytes_per_second = 1e12};

const CapacityShape& Shape(const char* name) { return *FindKnownShape(name); }

TEST(RooflineTest, ParametersThatAreMultipliedAreThoseOfTheModelsCards) {
  // Published counts without the embedding table, where that is not the output matrix, within 1 %.
  EXPECT_NEAR(CountParameterUse(Shape("llama-3-8b")).per_token, 8.03e9 - 0.525e9, 0.05e9);
  EXPECT_NEAR(CountParameterUse(Shape("llama-2-70b")).per_token, 68.98e9 - 0.262e9, 0.5e9);
  EXPECT_NEAR(CountParameterUse(Shape("qwen2.5-0.5b")).per_token, 0.494e9, 0.005e9);
  EXPECT_NEAR(CountParameterUse(Shape("gpt-2")).per_token, 0.1244e9 - 0.0008e9, 0.002e9);
  EXPECT_NEAR(CountParameterUse(Shape("gpt-3")).per_token, 174.6e9, 1e9);
  // "47B in all, 13B active", "30.5B in all, 3.3B active".
  EXPECT_NEAR(CountParameterUse(Shape("mixtral-8x7b")).per_token, 12.9e9, 0.3e9);
  EXPECT_NEAR(CountParameterUse(Shape("qwen3-30b-a3b")).per_token, 3.35e9, 0.35e9);
}

TEST(RooflineTest, OneSequenceReadsTheWeightsForEachToken) {
  const Speed speed =
      PredictSpeed(Shape("llama-2-7b"), {}, {.prompt_tokens = 1, .output_tokens = 2}, kMachine)
          .value();
  // 6.6e9 parameters of 2 bytes at 1e12 bytes/s, and next to no KV.
  EXPECT_NEAR(speed.tpot_seconds, 0.0132, 0.0004);
  EXPECT_TRUE(speed.decode_is_by_memory);
  EXPECT_NEAR(speed.tokens_per_second * speed.tpot_seconds, 1, 1e-9);
}

TEST(RooflineTest, ALongPromptIsBoundByItsOperations) {
  const Speed speed =
      PredictSpeed(Shape("llama-2-7b"), {}, {.prompt_tokens = 4096}, kMachine).value();
  // 2 x 6.6e9 x 4096, and 4 x 32 x 32 x 128 x 4096 x 2048 for attention.
  EXPECT_NEAR(speed.cold_ttft_seconds,
              (2 * 6.6e9 * 4096 + 4.0 * 32 * 32 * 128 * 4096 * 2048) / 1e14, 0.01);
  EXPECT_FALSE(speed.prefill_is_by_memory);
  EXPECT_LT(speed.warm_ttft_seconds, speed.cold_ttft_seconds / 30);
}

TEST(RooflineTest, ABatchSharesTheWeightsUntilItsKvIsMore) {
  double before = 0;
  std::vector<double> gains;
  for (const int sequences : {1, 4, 16, 64, 256}) {
    const Speed speed = PredictSpeed(Shape("llama-2-7b"), {.num_sequences = sequences},
                                     {.prompt_tokens = 2048}, kMachine)
                            .value();
    EXPECT_GT(speed.tokens_per_second, before);
    if (before > 0) gains.push_back(speed.tokens_per_second / before);
    before = speed.tokens_per_second;
  }
  EXPECT_GT(gains.front(), 3);
  EXPECT_LT(gains.back(), 1.3) << "each sequence of 2,176 tokens reads 1.1 GB of KV";
  const auto tokens_per_second = [](const char* name, int sequences) {
    return PredictSpeed(Shape(name), {.num_sequences = sequences}, {.prompt_tokens = 2048},
                        kMachine)
        .value()
        .tokens_per_second;
  };
  EXPECT_GT(tokens_per_second("mistral-7b", 64), 2 * tokens_per_second("llama-2-7b", 64))
      << "a quarter of the KV heads";
}

TEST(RooflineTest, AnExpertIsReadOnceForAllTokensThatChoseIt) {
  const auto tpot = [](int sequences) {
    return PredictSpeed(Shape("mixtral-8x7b"), {.num_sequences = sequences},
                        {.prompt_tokens = 1, .output_tokens = 2}, kMachine)
        .value()
        .tpot_seconds;
  };
  EXPECT_NEAR(tpot(1), 2 * 12.9e9 / 1e12, 0.001);
  EXPECT_NEAR(tpot(64), 2 * 46.6e9 / 1e12, 0.001) << "64 tokens choose all of them";
}

TEST(RooflineTest, WindowsLookAtNoMoreThanTheirTokens) {
  CapacityShape shape = Shape("mistral-7b");
  const auto tpot = [&] {
    return PredictSpeed(shape, {}, {.prompt_tokens = 30'000}, kMachine).value().tpot_seconds;
  };
  const double whole = tpot();
  shape.num_window_layers = shape.num_layers;
  shape.window_tokens = 4096;
  EXPECT_LT(tpot(), whole - 32 * 4096.0 * 25'000 / 1e12);
}

TEST(RooflineTest, WhatCannotBeIsRefused) {
  const CapacityShape& shape = Shape("gpt-2");
  EXPECT_FALSE(PredictSpeed(shape, {}, {.prompt_tokens = 0}, kMachine));
  EXPECT_FALSE(PredictSpeed(shape, {}, {.output_tokens = 0}, kMachine));
  EXPECT_FALSE(PredictSpeed(shape, {.num_sequences = 0}, {}, kMachine));
  EXPECT_FALSE(PredictSpeed(shape, {}, {}, {.name = "x", .operations_per_second = 1}));
}

TEST(RooflineTest, MachinesAreFoundByName) {
  EXPECT_EQ(FindKnownMachine("nothing"), nullptr);
  EXPECT_EQ(FindKnownMachine("h200")->memory_bytes, uint64_t{140} << 30);
  EXPECT_TRUE(std::is_sorted(
      KnownMachines().begin(), KnownMachines().end(),
      [](const MachineSpeed& one, const MachineSpeed& other) { return one.name < other.name; }));
}

}  // namespace
}  // namespace kvgate::model
