// These tests check ReadModelConfig by loading whole files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/model/bad_model.h"

namespace kvgate::model {

using modelfile::GgufFile;
using modelfile::GgufValue;
using modelfile::GgufWriter;

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
           {"llama.rope.scaling.type", std::string("dynamic")},
           {"llama.rope.scaling.yarn_log_multiplier", 0.1f},
           {"llama.rope.freq_base_swa", 5000.0f},
           {"llama.attention.causal", false},
           {"llama.attention.temperature_scale", 0.1f},
           {"llama.leading_dense_block_count", uint32_t{1}},
           {"llama.residual_scale", 0.5f},
           {"llama.logit_scale", 0.5f}}) {
    const Error error = with(key, value);
    EXPECT_EQ(error.code, ErrorCode::kUnsupported) << key;
    EXPECT_THAT(error.detail, HasSubstr("'" + key + "'"));
  }
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
    for (const modelfile::GgufTensor& tensor : (*file)->tensors()) {
      writer.AddTensor({.name = tensor.name,
                        .dimensions = tensor.dimensions,
                        .type = modelfile::GgufType::kF32});
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

TEST_F(ModelConfigTest, SenselessExpertsAreNamed) {
  const PlainShape shape = {.num_experts = 4, .num_used = 2};
  GgufWriter writer = PlainFile({});
  writer.Add("llama.expert_count", uint32_t{8});
  EXPECT_THAT(LoadError(writer).detail, HasSubstr("'llama.expert_used_count' is missing"));
  writer.Add("llama.expert_used_count", uint32_t{9});
  EXPECT_THAT(LoadError(writer).detail, HasSubstr("'llama.expert_used_count' is 9, not in 1 to 8"));
  writer = PlainFile(shape);
  writer.Add("llama.expert_gating_func", uint32_t{2});
  EXPECT_THAT(LoadError(writer).detail, HasSubstr("'llama.expert_gating_func' is 2; only 1"));
  writer = PlainFile(shape);
  writer.Add("llama.expert_shared_feed_forward_length", uint32_t{64});
  EXPECT_THAT(LoadError(writer).detail, HasSubstr("expert_shared_feed_forward_length"));
}

TEST_F(ModelConfigTest, GranitesFactorsMustBeInItsFiles) {
  const auto lacks = [&](const std::string& key) {
    ASSERT_TRUE(PlainFile({.architecture = "granite"}).Write(scratch_ / "m.gguf", FillPlain));
    const auto file = GgufFile::Open(scratch_ / "m.gguf");
    GgufWriter writer;
    for (const auto& [name, value] : (*file)->metadata()) {
      if (name != key) writer.Add(name, value);
    }
    for (const modelfile::GgufTensor& tensor : (*file)->tensors()) {
      writer.AddTensor({.name = tensor.name,
                        .dimensions = tensor.dimensions,
                        .type = modelfile::GgufType::kF32});
    }
    EXPECT_THAT(LoadError(writer).detail, HasSubstr("'" + key + "' is missing"));
  };
  lacks("granite.embedding_scale");
  lacks("granite.residual_scale");
  lacks("granite.attention.scale");
  lacks("granite.logit_scale");
}

TEST_F(ModelConfigTest, EveryNewKeyChangesTheFingerprint) {
  const auto fingerprint = [&](const PlainShape& shape, const std::string& key = "",
                               GgufValue value = 0.0f, const ConfigOptions& options = {}) {
    GgufWriter writer = PlainFile(shape);
    if (!key.empty()) writer.Add(key, std::move(value));
    EXPECT_TRUE(writer.Write(scratch_ / "f.gguf", FillPlain).has_value());
    std::shared_ptr<const GgufFile> file = *GgufFile::Open(scratch_ / "f.gguf");
    return (*Model::Load(file, *backend_, options))->fingerprint();
  };
  const PlainShape llama;
  const PlainShape mixtral = {.num_experts = 4, .num_used = 2};
  const PlainShape gemma2 = {.architecture = "gemma2", .window = 20};
  const PlainShape phi3 = {
      .architecture = "phi3", .rope_scaling = "longrope", .original_context = 64};
  EXPECT_EQ(fingerprint(llama), fingerprint(llama));
  EXPECT_NE(fingerprint(llama), fingerprint(llama, "llama.rope.scaling.factor", 4.0f));
  EXPECT_NE(fingerprint(llama), fingerprint(llama, "llama.rope.scaling.attn_factor", 1.5f));
  EXPECT_NE(fingerprint(llama), fingerprint(llama, "llama.attention.scale", 0.5f));
  EXPECT_NE(fingerprint(llama), fingerprint(llama, "llama.attention.sliding_window", uint32_t{9}));
  EXPECT_NE(fingerprint(mixtral), fingerprint(mixtral, "llama.expert_weights_norm", false));
  EXPECT_NE(fingerprint(mixtral), fingerprint(mixtral, "llama.expert_weights_scale", 2.0f));
  EXPECT_NE(fingerprint(gemma2), fingerprint(gemma2, "gemma2.attn_logit_softcapping", 40.0f));
  EXPECT_NE(fingerprint(gemma2), fingerprint(gemma2, "gemma2.final_logit_softcapping", 40.0f));
  EXPECT_NE(fingerprint(gemma2),
            fingerprint(gemma2, "gemma2.attention.sliding_window_pattern", uint32_t{3}));
  EXPECT_NE(fingerprint(phi3), fingerprint(phi3, "", 0.0f, {.context_tokens = 64}));
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
