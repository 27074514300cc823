#include "engine/model/make_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/engine/model/made_model.h"

namespace kvgate::model {
namespace {

using ::testing::HasSubstr;

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

using MakeModelTest = MadeModelTest;
INSTANTIATE_TEST_SUITE_P(All, MakeModelTest, SyntheticCases());

TEST_P(MakeModelTest, EqualOptionsGiveEqualBytesAndOtherSeedsOthers) {
  MakeModelOptions options = Tiny(GetParam().architecture, GetParam().dtype);
  ASSERT_TRUE(MakeModel(options, scratch_ / "again.gguf").has_value());
  EXPECT_EQ(ReadAll(scratch_ / "again.gguf"), ReadAll(path_));
  options.seed = 6;
  ASSERT_TRUE(MakeModel(options, scratch_ / "other.gguf").has_value());
  EXPECT_NE(ReadAll(scratch_ / "other.gguf"), ReadAll(path_));
  const LoadedModel other = LoadedModel::Open(scratch_ / "other.gguf", *backend_);
  EXPECT_NE(other.model->fingerprint(), loaded_.model->fingerprint());
}

TEST_P(MakeModelTest, InMemoryItIsTheSameModelForAnyNumberOfThreads) {
  const MakeModelOptions options = Tiny(GetParam().architecture, GetParam().dtype);
  for (const int num_threads : {1, 3}) {
    auto made = MakeModelInMemory(options, num_threads);
    ASSERT_TRUE(made.has_value()) << made.error().ToString();
    const std::shared_ptr<const modelfile::ModelFile> file = *std::move(made);
    const auto model = Model::Load(file, *backend_);
    ASSERT_TRUE(model.has_value()) << model.error().ToString();
    EXPECT_EQ((*model)->fingerprint(), loaded_.model->fingerprint());
    const auto tokenizer = tokenizer::Tokenizer::Load(*file);
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().ToString();
    EXPECT_EQ((*tokenizer)->vocab_size(), tokenizer_->vocab_size());
  }
}

TEST_P(MakeModelTest, TheShapeIsTheOneAskedFor) {
  const ModelConfig& config = loaded_.model->config();
  EXPECT_EQ(config.architecture, GetParam().architecture);
  EXPECT_EQ(config.name, GetParam().architecture + "-random-5");
  EXPECT_EQ(config.num_layers, 3);
  EXPECT_EQ(config.hidden_dim, 128);
  EXPECT_EQ(config.num_heads, 8);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.experts.num_experts > 0 ? config.experts.ffn_dim : config.ffn_dim, 256);
  EXPECT_EQ(config.vocab_size, 700);
  EXPECT_EQ(config.context_length, 4096);
  EXPECT_EQ(config.tied_embeddings, GetParam().architecture == "qwen2");
  EXPECT_EQ(tokenizer_->vocab_size(), 700);
}

// Features that only some architectures have are made when they are asked for.
TEST(MakeModelOptionsTest, WindowsExpertsAndRopeScalingAreMade) {
  const TempFolder scratch;
  const auto made = [&](auto change) {
    MakeModelOptions options = Tiny("llama", kernels::DType::kF32);
    change(options);
    EXPECT_TRUE(MakeModel(options, scratch / "m.gguf").has_value());
    const auto file = modelfile::GgufFile::Open(scratch / "m.gguf");
    const auto config = ReadModelConfig(**file);
    EXPECT_TRUE(config.has_value()) << config.error().ToString();
    return *config;
  };
  const ModelConfig plain = made([](MakeModelOptions&) {});
  const ModelConfig mixtral = made([](MakeModelOptions& o) { o.num_experts = 4; });
  EXPECT_EQ(mixtral.experts.num_experts, 4);
  EXPECT_EQ(mixtral.experts.num_used, 2);
  const ModelConfig gpt_oss = made([](MakeModelOptions& o) { o.architecture = "gpt-oss"; });
  EXPECT_EQ(gpt_oss.experts.num_experts, 8);
  EXPECT_EQ(gpt_oss.layers[0].window, 128);
  EXPECT_EQ(made([](MakeModelOptions& o) { o.window = 40; }).layers[2].window, 40);
  for (const char* architecture : {"llama", "qwen3", "gemma3", "phi3", "gpt-oss"}) {
    const auto scaled = [&](int original) {
      return made([&](MakeModelOptions& o) {
        o.architecture = architecture;
        o.rope_original_context = original;
      });
    };
    EXPECT_NE(scaled(512).ropes[0].inv_freq, scaled(0).ropes[0].inv_freq) << architecture;
  }
  EXPECT_EQ(plain.kv_groups.size(), 1u);
}

TEST(MakeModelOptionsTest, ABadOptionIsNamed) {
  const TempFolder scratch;
  const auto refused = [&](std::string_view field, auto change) {
    MakeModelOptions options = Tiny("llama", kernels::DType::kQ8_0);
    change(options);
    const Result<void> made = MakeModel(options, scratch / "bad.gguf");
    ASSERT_FALSE(made.has_value()) << field;
    EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(made.error().field, field);
    EXPECT_THAT(made.error().detail, HasSubstr(std::string(field)));
    EXPECT_FALSE(std::filesystem::exists(scratch / "bad.gguf"));
  };
  refused("architecture", [](MakeModelOptions& o) { o.architecture = "gpt2"; });
  refused("num_layers", [](MakeModelOptions& o) { o.num_layers = 0; });
  refused("hidden_dim", [](MakeModelOptions& o) { o.hidden_dim = 32; });
  refused("hidden_dim", [](MakeModelOptions& o) { o.hidden_dim = 144; });
  refused("num_heads", [](MakeModelOptions& o) { o.num_heads = 5; });
  refused("num_kv_heads", [](MakeModelOptions& o) { o.num_kv_heads = 3; });
  refused("num_kv_heads", [](MakeModelOptions& o) { o.num_kv_heads = 16; });
  refused("ffn_dim", [](MakeModelOptions& o) { o.ffn_dim = 100; });
  refused("vocab_size", [](MakeModelOptions& o) { o.vocab_size = 98; });
  refused("vocab_size", [](MakeModelOptions& o) {
    o.architecture = "qwen2";
    o.vocab_size = 258;
  });
  refused("context_length", [](MakeModelOptions& o) { o.context_length = 0; });
  refused("window", [](MakeModelOptions& o) { o.window = -1; });
  refused("window", [](MakeModelOptions& o) {
    o.architecture = "qwen3";
    o.window = 64;
  });
  refused("rope_original_context", [](MakeModelOptions& o) { o.rope_original_context = 9999; });
  refused("num_experts", [](MakeModelOptions& o) {
    o.architecture = "gemma3";
    o.num_experts = 4;
  });
  refused("num_experts_used", [](MakeModelOptions& o) {
    o.num_experts = 4;
    o.num_experts_used = 5;
  });
  refused("is_mixed", [](MakeModelOptions& o) { o.is_mixed = true; });
}

}  // namespace
}  // namespace kvgate::model
