// ReadModelConfig, through the loading of whole files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/model/bad_model.h"

namespace kvgate::model {
namespace {

using ::testing::HasSubstr;
using ModelConfigTest = BadModelTest;

TEST_F(ModelConfigTest, WhatWeCannotComputeIsRefusedByItsKey) {
  const auto with = [&](const std::string& key, GgufValue value) {
    GgufWriter writer = PlainFile({});
    writer.Add(key, std::move(value));
    return LoadError(writer);
  };
  for (const auto& [key, value] : std::vector<std::pair<std::string, GgufValue>>{
           {"llama.rope.scaling.type", std::string("yarn")},
           {"llama.rope.scaling.factor", 4.0f},
           {"llama.rope.scale_linear", 2.0f},
           {"llama.expert_count", uint32_t{8}},
           {"llama.attention.sliding_window", uint32_t{4096}},
           {"llama.attention.causal", false},
           {"llama.logit_scale", 0.5f}}) {
    const Error error = with(key, value);
    EXPECT_EQ(error.code, ErrorCode::kUnsupported) << key;
    EXPECT_THAT(error.detail, HasSubstr("'" + key + "'"));
  }
  GgufWriter writer = PlainFile({});
  writer.AddTensor({.name = "rope_freqs.weight", .dimensions = {4}, .type = GgufType::kF32});
  EXPECT_THAT(LoadError(writer).detail, HasSubstr("'rope_freqs.weight'"));
  EXPECT_EQ(with("llama.rope.scaling.type", std::string("none")).detail, "the model was loaded");
}

TEST_F(ModelConfigTest, SenselessMetadataIsNamed) {
  const auto changed = [&](const std::string& key, GgufValue value, bool drop = false) {
    ASSERT_TRUE(PlainFile({}).Write(scratch_ / "m.gguf", FillPlain).has_value());
    const auto file = GgufFile::Open(scratch_ / "m.gguf");
    GgufWriter writer;
    for (const auto& [name, old] : (*file)->metadata()) {
      if (name != key) writer.Add(name, old);
    }
    if (!drop) writer.Add(key, std::move(value));
    for (const GgufTensor& tensor : (*file)->tensors()) {
      writer.AddTensor(
          {.name = tensor.name, .dimensions = tensor.dimensions, .type = GgufType::kF32});
    }
    const Error error = LoadError(writer);
    EXPECT_EQ(error.code, ErrorCode::kDataLoss) << key;
    EXPECT_THAT(error.detail, HasSubstr(key));
  };
  changed("llama.block_count", uint32_t{0}, true);
  changed("llama.block_count", uint32_t{0});
  changed("llama.block_count", uint32_t{1} << 31);
  changed("llama.block_count", std::string("two"));
  changed("llama.embedding_length", int32_t{-48});
  changed("llama.attention.head_count", uint32_t{5});
  changed("llama.attention.head_count_kv", uint32_t{4});
  changed("llama.rope.dimension_count", uint32_t{7});
  changed("llama.rope.dimension_count", uint32_t{10});
  changed("llama.rope.freq_base", 0.0f);
  changed("llama.attention.layer_norm_rms_epsilon", std::nanf(""));
  changed("llama.vocab_size", uint32_t{96});
  changed("general.architecture", uint32_t{1});
}

TEST_F(ModelConfigTest, AnUnknownArchitectureIsNamedWithThoseWeHave) {
  GgufWriter writer;
  writer.Add("general.architecture", std::string("mamba"));
  const Error error = LoadError(writer);
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.detail, HasSubstr("\"mamba\" is not one of llama, qwen2"));
}

}  // namespace
}  // namespace kvgate::model
