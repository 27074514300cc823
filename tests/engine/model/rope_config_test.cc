// These tests check ReadRopes by reading whole files. architecture_test.cc shows that the angles
// are those of the authors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/model/bad_model.h"

namespace kvgate::model {

using modelfile::GgufWriter;

namespace {

using ::testing::HasSubstr;

class RopeConfigTest : public BadModelTest {
 protected:
  RopeConfig Read(const GgufWriter& writer, const ConfigOptions& options = {}) {
    EXPECT_TRUE(writer.Write(scratch_ / "m.gguf", FillPlain).has_value());
    const auto file = modelfile::GgufFile::Open(scratch_ / "m.gguf");
    const auto config = ReadModelConfig(**file, options);
    EXPECT_TRUE(config.has_value()) << config.error().ToString();
    return config->ropes.at(0);
  }
};

TEST_F(RopeConfigTest, WithoutScalingFrequenciesAreTheBasesPowers) {
  const RopeConfig rope = Read(PlainFile({}));
  ASSERT_EQ(rope.inv_freq.size(), 4u);
  EXPECT_FLOAT_EQ(rope.inv_freq[0], 1);
  EXPECT_FLOAT_EQ(rope.inv_freq[1], 0.1f);
  EXPECT_FLOAT_EQ(rope.inv_freq[3], 0.001f);
  EXPECT_EQ(rope.magnitude, 1);
}

TEST_F(RopeConfigTest, AFactorWithoutATypeIsLinearAndItsOldNameIsKnown) {
  for (const char* key : {"llama.rope.scaling.factor", "llama.rope.scale_linear"}) {
    GgufWriter writer = PlainFile({});
    writer.Add(key, 4.0f);
    EXPECT_FLOAT_EQ(Read(writer).inv_freq[1], 0.025f) << key;
  }
  GgufWriter writer = PlainFile({});
  writer.Add("llama.rope.scaling.factor", 4.0f);
  writer.Add("llama.rope.scaling.type", std::string("none"));
  EXPECT_FLOAT_EQ(Read(writer).inv_freq[1], 0.1f);
}

// These are gpt-oss's own numbers: a factor of 32 on 4096 tokens, heads of 64, base 150000.
TEST_F(RopeConfigTest, YarnKeepsFastPairsAndStretchesSlowOnes) {
  const RopeConfig rope = Read(PlainFile({.architecture = "gpt-oss",
                                          .head_dim = 64,
                                          .rotary_dim = 64,
                                          .theta = 150000,
                                          .context = 131072,
                                          .window = 128,
                                          .rope_scaling = "yarn",
                                          .rope_factor = 32,
                                          .original_context = 4096,
                                          .num_experts = 2,
                                          .num_used = 1,
                                          .expert_ffn = 32}));
  const auto plain = [](int pair) { return std::pow(150000.0, -pair / 32.0); };
  EXPECT_FLOAT_EQ(rope.magnitude, static_cast<float>(1 + 0.1 * std::log(32.0)));
  // The ramp goes from pair 8.09 to pair 17.40.
  EXPECT_FLOAT_EQ(rope.inv_freq[8], static_cast<float>(plain(8)));
  EXPECT_FLOAT_EQ(rope.inv_freq[18], static_cast<float>(plain(18) / 32));
  EXPECT_LT(rope.inv_freq[9], plain(9));
  EXPECT_GT(rope.inv_freq[17], plain(17) / 32);
}

TEST_F(RopeConfigTest, TheContextDecidesWhichOfLongropesFactorsHold) {
  const PlainShape shape = {
      .architecture = "phi3", .rope_scaling = "longrope", .original_context = 64};
  const RopeConfig own = Read(PlainFile(shape));
  const RopeConfig beyond = Read(PlainFile(shape), {.context_tokens = 65});
  const RopeConfig within = Read(PlainFile(shape), {.context_tokens = 64});
  EXPECT_EQ(own.inv_freq, beyond.inv_freq);
  EXPECT_NE(own.inv_freq, within.inv_freq);
  EXPECT_EQ(own.magnitude, within.magnitude);
  GgufWriter writer = PlainFile(shape);
  writer.Add("phi3.rope.scaling.attn_factor", 1.25f);
  EXPECT_EQ(Read(writer).magnitude, 1.25f);
}

TEST_F(RopeConfigTest, WhatIsMissingOrSenselessIsNamed) {
  GgufWriter writer = PlainFile({});
  writer.AddTensor(
      {.name = "rope_freqs.weight", .dimensions = {5}, .type = modelfile::GgufType::kF32});
  EXPECT_THAT(LoadError(writer).detail, HasSubstr("'rope_freqs.weight' is no vector of 4"));
  writer = PlainFile({.architecture = "phi3", .rope_scaling = "longrope"});
  EXPECT_THAT(LoadError(writer).detail, HasSubstr("'phi3.rope.scaling.original_context_length'"));
  writer = PlainFile({.architecture = "phi3", .original_context = 64});
  writer.Add("phi3.rope.scaling.type", std::string("longrope"));
  EXPECT_THAT(LoadError(writer).detail, HasSubstr("'rope_factors_long.weight' is missing"));
  writer = PlainFile({.architecture = "phi3", .rope_scaling = "longrope", .original_context = 64});
  writer.Add("phi3.rope.scaling.type", std::string("linear"));
  EXPECT_THAT(LoadError(writer).detail, HasSubstr("\"linear\", but tensor"));
  writer = PlainFile({});
  writer.Add("llama.rope.scaling.type", std::string("dynamic"));
  EXPECT_THAT(LoadError(writer).detail, HasSubstr("supported are none, linear, yarn and longrope"));
  writer = PlainFile({});
  writer.Add("llama.rope.scaling.factor", -2.0f);
  EXPECT_THAT(LoadError(writer).detail, HasSubstr("'llama.rope.scaling.factor' is -2"));
}

}  // namespace
}  // namespace kvgate::model
