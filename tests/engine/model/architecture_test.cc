// Every architecture is compared with the forward pass of plain_transformer.h: cold, in batches, in
// chunks, and with half of it restored; windows and the original contexts of rope scaling are
// shorter than the text. The last tests cover metadata that a file may leave to its architecture.
#include "engine/model/architecture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"
#include "tests/engine/model/bad_model.h"
#include "tests/engine/model/model_runner.h"
#include "tests/engine/model/plain_transformer.h"
#include "tests/engine/model/test_paths.h"

namespace kvgate::model {
namespace {

using kernels::DType;
using ::testing::HasSubstr;

constexpr int kTokens = 150;  // five KV blocks, the last one not full

struct ArchitectureCase {
  std::string name;
  PlainShape shape;
  double tolerance = 1e-5;
};

std::vector<ArchitectureCase> GemmaCases() {
  std::vector<ArchitectureCase> cases;
  cases.push_back(
      {"gemma", {.architecture = "gemma", .head_dim = 16, .rotary_dim = 16, .tied = true}});
  cases.push_back({"gemma2",
                   {.architecture = "gemma2",
                    .num_layers = 4,
                    .head_dim = 12,
                    .rotary_dim = 12,
                    .tied = true,
                    .eps = 1e-6f,
                    .window = 33}});
  // Only the number of layers tells this model apart: its scores are divided by sqrt(16), not
  // sqrt(8).
  cases.push_back({"gemma2_27b",
                   {.architecture = "gemma2",
                    .num_layers = 46,
                    .hidden = 32,
                    .num_heads = 2,
                    .num_kv_heads = 1,
                    .ffn = 32,
                    .tied = true,
                    .window = 64}});
  cases.push_back({"gemma3",
                   {.architecture = "gemma3",
                    .num_layers = 8,
                    .tied = true,
                    .theta = 1e6,
                    .eps = 1e-6f,
                    .window = 20}});
  cases.push_back({"gemma3_linear",
                   {.architecture = "gemma3",
                    .num_layers = 7,
                    .head_dim = 16,
                    .rotary_dim = 16,
                    .tied = true,
                    .theta = 1e6,
                    .window = 32,
                    .rope_scaling = "linear",
                    .rope_factor = 8}});
  return cases;
}

// Returns a small model of each dense architecture with the features that its models use.
std::vector<ArchitectureCase> DenseCases() {
  const PlainShape yarn = {.rope_scaling = "yarn", .rope_factor = 4, .original_context = 64};
  std::vector<ArchitectureCase> cases;
  cases.push_back({"llama", {.architecture = "llama"}});
  cases.push_back(
      {"llama31",
       {.architecture = "llama", .theta = PlainLlama3::kTheta, .rope_scaling = "llama3"}});
  cases.push_back({"llama_linear", {.rope_scaling = "linear", .rope_factor = 3}});
  cases.push_back({"llama_yarn", yarn});
  cases.push_back({"mistral_window", {.window = 40}});
  cases.push_back({"qwen2", {.architecture = "qwen2", .tied = true, .theta = 1e6}});
  PlainShape qwen2_yarn = yarn;
  qwen2_yarn.architecture = "qwen2";
  qwen2_yarn.rotary_dim = qwen2_yarn.head_dim = 16;
  cases.push_back({"qwen2_yarn", qwen2_yarn});
  cases.push_back(
      {"qwen3", {.architecture = "qwen3", .head_dim = 16, .rotary_dim = 16, .tied = true}});
  cases.push_back({"phi3_window", {.architecture = "phi3", .window = 47}});
  const PlainShape longrope = {.architecture = "phi3",
                               .head_dim = 12,
                               .rotary_dim = 8,
                               .rope_scaling = "longrope",
                               .original_context = 64};
  cases.push_back({"phi3_longrope_long", longrope});
  PlainShape short_factors = longrope;
  short_factors.context_tokens = 64;
  short_factors.tied = true;
  cases.push_back({"phi3_longrope_short", short_factors});
  cases.push_back({"smollm3", {.architecture = "smollm3", .num_layers = 5, .tied = true}});
  cases.push_back({"olmo2", {.architecture = "olmo2", .num_layers = 3}});
  PlainShape olmo3 = yarn;
  olmo3.architecture = "olmo2";
  olmo3.num_layers = 5;
  olmo3.window = 36;
  cases.push_back({"olmo3", olmo3});
  cases.push_back({"granite", {.architecture = "granite", .tied = true}});
  return cases;
}

std::vector<ArchitectureCase> ExpertCases() {
  std::vector<ArchitectureCase> cases;
  cases.push_back({"mixtral", {.num_experts = 6, .num_used = 2}});
  cases.push_back({"mixtral_old_file", {.num_experts = 4, .num_used = 2, .one_tensor_each = true}});
  cases.push_back({"qwen2moe",
                   {.architecture = "qwen2moe",
                    .num_experts = 8,
                    .num_used = 3,
                    .expert_ffn = 24,
                    .shared_ffn = 56}});
  cases.push_back({"qwen3moe",
                   {.architecture = "qwen3moe",
                    .head_dim = 16,
                    .rotary_dim = 16,
                    .num_experts = 9,
                    .num_used = 4,
                    .expert_ffn = 20}});
  cases.push_back({"granitemoe", {.architecture = "granitemoe", .num_experts = 5, .num_used = 2}});
  cases.push_back(
      {"granitemoe_shared",
       {.architecture = "granitemoe", .num_experts = 5, .num_used = 2, .shared_ffn = 40}});
  const PlainShape gpt_oss = {.architecture = "gpt-oss",
                              .num_layers = 4,
                              .hidden = 64,
                              .ffn = 64,
                              .theta = 150000,
                              .window = 24,
                              .rope_scaling = "yarn",
                              .rope_factor = 8,
                              .original_context = 32,
                              .num_experts = 7,
                              .num_used = 3,
                              .expert_ffn = 64};
  cases.push_back({"gpt_oss", gpt_oss});
  PlainShape mxfp4 = gpt_oss;
  mxfp4.expert_type = modelfile::GgufTypeOf(DType::kMXFP4);
  // The CPU backend rounds activations to 8 bits when it multiplies them with MXFP4 weights.
  cases.push_back({"gpt_oss_mxfp4", mxfp4, 1e-3});
  return cases;
}

using Param = std::tuple<std::string, ArchitectureCase>;

class ArchitectureTest : public ::testing::TestWithParam<Param> {
 protected:
  void SetUp() override {
    const std::string& backend = std::get<0>(GetParam());
    backend_ = backend == "reference"
                   ? kernels::reference::MakeReferenceBackend()
                   : *kernels::cpu::MakeCpuBackend({.num_threads = 1, .target = ""});
    ASSERT_TRUE(PlainFile(shape_).Write(scratch_ / "m.gguf", FillPlain).has_value());
    loaded_ = LoadedModel::Open(scratch_ / "m.gguf", *backend_,
                                {.context_tokens = shape_.context_tokens});
    tokens_ = RandomTokens(kTokens, shape_.vocab, 3);
    SequenceRunner runner(*loaded_.model, *backend_, kOptions);
    cold_ = runner.Step(tokens_, AllRows(kTokens));
  }

  // Expects the bits of the cold run, from position `first` on.
  void ExpectCold(std::span<const float> logits, int first) const {
    const auto vocab = static_cast<size_t>(shape_.vocab);
    const auto expected = std::span(cold_).subspan(static_cast<size_t>(first) * vocab);
    ASSERT_LE(logits.size(), expected.size());
    ASSERT_EQ(std::memcmp(logits.data(), expected.data(), logits.size_bytes()), 0)
        << "rows from " << first;
  }

  static constexpr SequenceRunner::Options kOptions = {.context = 160, .kv_dtype = DType::kF32};
  const PlainShape& shape_ = std::get<1>(GetParam()).shape;
  TempFolder scratch_;
  std::unique_ptr<kernels::Backend> backend_;
  LoadedModel loaded_;
  std::vector<TokenId> tokens_;
  std::vector<float> cold_;  // [kTokens, vocab]
};

std::string CaseName(const ::testing::TestParamInfo<Param>& info) {
  return std::get<0>(info.param) + "_" + std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(Dense, ArchitectureTest,
                         ::testing::Combine(::testing::Values("reference", "cpu"),
                                            ::testing::ValuesIn(DenseCases())),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Gemma, ArchitectureTest,
                         ::testing::Combine(::testing::Values("reference", "cpu"),
                                            ::testing::ValuesIn(GemmaCases())),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Experts, ArchitectureTest,
                         ::testing::Combine(::testing::Values("reference", "cpu"),
                                            ::testing::ValuesIn(ExpertCases())),
                         CaseName);

// The test's report keeps ||difference|| / ||expected|| of the worst row.
TEST_P(ArchitectureTest, LogitsEqualAnIndependentDoubleForward) {
  const auto expected = PlainTransformer(shape_, *loaded_.file).Run(tokens_);
  double worst = 0;
  for (size_t row = 0; row < expected.size(); ++row) {
    double difference = 0;
    double norm = 0;
    for (size_t i = 0; i < expected[row].size(); ++i) {
      const double delta = cold_[row * expected[row].size() + i] - expected[row][i];
      difference += delta * delta;
      norm += expected[row][i] * expected[row][i];
    }
    ASSERT_GT(norm, 0);
    worst = std::max(worst, std::sqrt(difference / norm));
  }
  RecordProperty("relative_difference", std::to_string(worst * 1e6) + "e-6");
  EXPECT_LE(worst, std::get<1>(GetParam()).tolerance);
}

TEST_P(ArchitectureTest, ChunksGiveTheBitsOfTheWhole) {
  for (const int chunk : {1, 31, 64}) {
    SequenceRunner runner(*loaded_.model, *backend_, kOptions);
    for (int first = 0; first < kTokens; first += chunk) {
      const int count = std::min(chunk, kTokens - first);
      const auto run =
          std::span(tokens_).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
      ExpectCold(runner.Last(run), first + count - 1);
    }
  }
}

TEST_P(ArchitectureTest, OtherSequencesInTheStepChangeNothing) {
  BatchRunner runner(*loaded_.model, *backend_, kOptions, 3);
  const std::vector<TokenId> before = RandomTokens(kTokens, shape_.vocab, 21);
  const std::vector<TokenId> after = RandomTokens(kTokens, shape_.vocab, 22);
  int done = 0;
  for (const auto& [num_before, num_known, num_after] :
       std::vector<std::array<int, 3>>{{5, 40, 1}, {1, 1, 33}, {1, 1, 1}, {64, 108, 2}}) {
    const auto logits = runner.Step(
        {std::span(before).first(static_cast<size_t>(num_before)),
         std::span(tokens_).subspan(static_cast<size_t>(done), static_cast<size_t>(num_known)),
         std::span(after).first(static_cast<size_t>(num_after))});
    done += num_known;
    const auto vocab = static_cast<size_t>(shape_.vocab);
    ExpectCold(std::span(logits).subspan(vocab, vocab), done - 1);
  }
  EXPECT_EQ(done, kTokens);
}

// Blocks that slid out of a window need not be restored, because no layer reads them.
TEST_P(ArchitectureTest, HalfOfItRestoredGivesTheBitsOfACold) {
  constexpr int kHalf = 96;
  SequenceRunner first(*loaded_.model, *backend_, kOptions);
  first.Step(std::span(tokens_).first(kHalf), {});
  SequenceRunner second(*loaded_.model, *backend_, kOptions);
  for (size_t group = 0; group < first.num_groups(); ++group) {
    const int window = loaded_.model->config().kv_groups[group].window;
    std::vector<std::byte> bytes(first.arena(group).block_bytes());
    for (int block = 0; block < kHalf / kernels::kKvBlockTokens; ++block) {
      const BlockId id = first.blocks()[static_cast<size_t>(block)];
      if (window > 0 && (block + 1) * kernels::kKvBlockTokens <= kHalf - window + 1) {
        backend_->PoisonKvBlock(second.arena(group), id);
        continue;
      }
      backend_->ReadKvBlock(first.arena(group), id, bytes);
      backend_->WriteKvBlock(second.arena(group), id, bytes);
    }
  }
  second.SkipTo(kHalf);
  ExpectCold(second.Step(std::span(tokens_).subspan(kHalf), AllRows(kTokens - kHalf)), kHalf);
}

TEST_P(ArchitectureTest, OneKvGroupForAllLayersGivesTheSameBits) {
  const LoadedModel one =
      LoadedModel::Open(scratch_ / "m.gguf", *backend_,
                        {.context_tokens = shape_.context_tokens, .one_kv_group = true});
  ASSERT_EQ(one.model->config().kv_groups.size(), 1u);
  EXPECT_EQ(one.model->fingerprint(), loaded_.model->fingerprint());
  SequenceRunner runner(*one.model, *backend_, kOptions);
  ExpectCold(runner.Step(tokens_, AllRows(kTokens)), 0);
}

// These tests check which layers have a window and how layers form KV groups.

class LayersTest : public BadModelTest {
 protected:
  ModelConfig Read(const modelfile::GgufWriter& writer, const ConfigOptions& options = {}) {
    EXPECT_TRUE(writer.Write(scratch_ / "m.gguf", FillPlain).has_value());
    const auto file = modelfile::GgufFile::Open(scratch_ / "m.gguf");
    EXPECT_TRUE(file.has_value());
    const auto config = ReadModelConfig(**file, options);
    EXPECT_TRUE(config.has_value()) << config.error().ToString();
    return *config;
  }
  static std::vector<int> Windows(const ModelConfig& config) {
    std::vector<int> windows;
    for (const LayerConfig& layer : config.layers) windows.push_back(layer.window);
    return windows;
  }
};

TEST_F(LayersTest, GroupsAreOfTheLayersWithoutAWindowFirst) {
  const ModelConfig config =
      Read(PlainFile({.architecture = "gemma3", .num_layers = 7, .window = 20}));
  EXPECT_THAT(Windows(config), ::testing::ElementsAre(20, 20, 20, 20, 20, 0, 20));
  ASSERT_EQ(config.kv_groups.size(), 2u);
  EXPECT_EQ(config.kv_groups[0].window, 0);
  EXPECT_EQ(config.kv_groups[0].num_layers, 1);
  EXPECT_EQ(config.kv_groups[1].window, 20);
  EXPECT_EQ(config.kv_groups[1].num_layers, 6);
  EXPECT_EQ(config.layers[5].kv_group, 0);
  EXPECT_EQ(config.layers[5].kv_layer, 0);
  EXPECT_EQ(config.layers[6].kv_group, 1);
  EXPECT_EQ(config.layers[6].kv_layer, 5);
  EXPECT_EQ(config.layers[5].rope, 0);
  EXPECT_EQ(config.layers[6].rope, 1);
}

TEST_F(LayersTest, WhereEveryLayerHasAWindowThereIsOneGroup) {
  const ModelConfig config = Read(PlainFile({.architecture = "phi3", .window = 40}));
  EXPECT_THAT(Windows(config), ::testing::ElementsAre(40, 40));
  ASSERT_EQ(config.kv_groups.size(), 1u);
  EXPECT_EQ(config.kv_groups[0].window, 0);
  EXPECT_EQ(config.kv_groups[0].num_layers, 2);
}

TEST_F(LayersTest, AWindowThatNoContextFillsIsNone) {
  const ModelConfig config =
      Read(PlainFile({.architecture = "gemma3", .num_layers = 2, .window = 256}));
  EXPECT_THAT(Windows(config), ::testing::ElementsAre(0, 0));
  EXPECT_EQ(config.kv_groups.size(), 1u);
  EXPECT_EQ(config.layers[0].rope, 1) << "it still turns as a layer with a window";
}

TEST_F(LayersTest, AFileMaySayWhichLayersHaveTheWindow) {
  modelfile::GgufWriter writer =
      PlainFile({.architecture = "gemma3", .num_layers = 4, .window = 20});
  writer.Add("gemma3.attention.sliding_window_pattern", uint32_t{2});
  EXPECT_THAT(Windows(Read(writer)), ::testing::ElementsAre(20, 0, 20, 0));
  const auto flags = std::make_shared<modelfile::GgufArray>();
  flags->values = std::vector<bool>{false, true, true, false};
  writer = PlainFile({.architecture = "gemma3", .num_layers = 4, .window = 20});
  writer.Add("gemma3.attention.sliding_window_pattern",
             std::shared_ptr<const modelfile::GgufArray>(flags));
  EXPECT_THAT(Windows(Read(writer)), ::testing::ElementsAre(0, 20, 20, 0));
  writer = PlainFile({.architecture = "gemma3", .num_layers = 3, .window = 20});
  writer.Add("gemma3.attention.sliding_window_pattern",
             std::shared_ptr<const modelfile::GgufArray>(flags));
  EXPECT_THAT(LoadError(writer).detail, HasSubstr("no array of 3 booleans"));
}

TEST_F(LayersTest, WhatAnArchitectureLacksIsRefusedByItsKey) {
  modelfile::GgufWriter writer = PlainFile({.architecture = "qwen3"});
  writer.Add("qwen3.attention.sliding_window", uint32_t{64});
  EXPECT_THAT(LoadError(writer).detail, HasSubstr("'qwen3.attention.sliding_window' is 64"));
  writer = PlainFile({.architecture = "qwen2"});
  writer.Add("qwen2.expert_count", uint32_t{8});
  EXPECT_THAT(LoadError(writer).detail, HasSubstr("'qwen2.expert_count' is 8"));
  writer = PlainFile({});
  writer.Add("llama.final_logit_softcapping", 30.0f);
  EXPECT_THAT(LoadError(writer).detail, HasSubstr("'llama.final_logit_softcapping'"));
  EXPECT_THAT(LoadError(PlainFile({.architecture = "gemma3"})).detail,
              HasSubstr("'gemma3.attention.sliding_window' is missing"));
  EXPECT_THAT(LoadError(PlainFile({.architecture = "qwen3moe"})).detail,
              HasSubstr("'qwen3moe.expert_count' is missing"));
}

TEST_F(LayersTest, TheNamesAreListedInOneLine) {
  EXPECT_THAT(ArchitectureNames(), ::testing::StartsWith("llama, qwen2, qwen3, "));
  EXPECT_EQ(FindArchitecture("mamba"), nullptr);
  EXPECT_EQ(FindArchitecture("gpt-oss")->name, "gpt-oss");
  EXPECT_EQ(Architectures().size(), 15u);
}

}  // namespace
}  // namespace kvgate::model
