#include "engine/modelfile/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace kvgate::modelfile {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

json Config(const std::string& architecture = "LlamaForCausalLM") {
  return {{"architectures", {architecture}},
          {"hidden_act", "silu"},
          {"hidden_size", 64},
          {"intermediate_size", 160},
          {"max_position_embeddings", 4096},
          {"num_attention_heads", 8},
          {"num_hidden_layers", 3},
          {"num_key_value_heads", 2},
          {"head_dim", 16},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 500000.0},
          {"vocab_size", 97}};
}

HfConfig MustRead(const json& config, const std::string& generation = "") {
  auto read = ReadHfConfig(config.dump(), generation);
  EXPECT_TRUE(read.has_value()) << read.error().ToString();
  return read ? *std::move(read) : HfConfig();
}

const GgufValue* Find(const HfConfig& config, const std::string& key) {
  for (const auto& [name, value] : config.metadata) {
    if (name == key) return &value;
  }
  return nullptr;
}

template <typename T>
T Get(const HfConfig& config, const std::string& key) {
  const GgufValue* value = Find(config, key);
  EXPECT_NE(value, nullptr) << key;
  return value == nullptr ? T() : std::get<T>(*value);
}

Error ErrorOf(const json& config, const std::string& generation = "") {
  const auto read = ReadHfConfig(config.dump(), generation);
  if (read.has_value()) return MakeError(ErrorCode::kInternal, "test", "it was read");
  return read.error();
}

TEST(HfConfigTest, ALlamaBecomesGgufMetadata) {
  const HfConfig config = MustRead(Config());
  EXPECT_EQ(Get<std::string>(config, "general.architecture"), "llama");
  EXPECT_EQ(Get<uint32_t>(config, "llama.block_count"), 3u);
  EXPECT_EQ(Get<uint32_t>(config, "llama.embedding_length"), 64u);
  EXPECT_EQ(Get<uint32_t>(config, "llama.feed_forward_length"), 160u);
  EXPECT_EQ(Get<uint32_t>(config, "llama.context_length"), 4096u);
  EXPECT_EQ(Get<uint32_t>(config, "llama.attention.head_count"), 8u);
  EXPECT_EQ(Get<uint32_t>(config, "llama.attention.head_count_kv"), 2u);
  EXPECT_EQ(Get<uint32_t>(config, "llama.attention.key_length"), 16u);
  EXPECT_EQ(Get<uint32_t>(config, "llama.vocab_size"), 97u);
  EXPECT_EQ(Get<float>(config, "llama.rope.freq_base"), 500000.0f);
  EXPECT_EQ(Get<float>(config, "llama.attention.layer_norm_rms_epsilon"), 1e-5f);
  EXPECT_TRUE(Get<bool>(config, std::string(kRopeHalvesKey)));
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_EQ(Find(config, "llama.attention.sliding_window"), nullptr);
}

TEST(HfConfigTest, WhatOldFilesLeaveUnsaidIsTheirDefault) {
  json old = Config();
  for (const char* name : {"num_key_value_heads", "head_dim", "rms_norm_eps", "rope_theta"}) {
    old.erase(name);
  }
  const HfConfig config = MustRead(old);
  EXPECT_EQ(Get<uint32_t>(config, "llama.attention.head_count_kv"), 8u);
  EXPECT_EQ(Get<uint32_t>(config, "llama.attention.key_length"), 8u);
  EXPECT_EQ(Get<float>(config, "llama.rope.freq_base"), 10000.0f);
  // If the class's default value fits no model, the field is required.
  json mistral = old;
  mistral["architectures"] = {"MistralForCausalLM"};
  EXPECT_THAT(ErrorOf(mistral).detail, HasSubstr("num_key_value_heads is missing"));
  json qwen3 = Config("Qwen3ForCausalLM");
  qwen3.erase("head_dim");
  EXPECT_THAT(ErrorOf(qwen3).detail, HasSubstr("head_dim is missing"));
}

TEST(HfConfigTest, TheKinHaveTheirOwnNamesAndWindows) {
  const HfConfig qwen = MustRead(Config("Qwen2ForCausalLM"));
  EXPECT_EQ(Get<uint32_t>(qwen, "qwen2.block_count"), 3u);
  EXPECT_EQ(Find(qwen, std::string(kRopeHalvesKey)), nullptr);
  EXPECT_EQ(Get<uint32_t>(MustRead(Config("Qwen3ForCausalLM")), "qwen3.block_count"), 3u);
  json mistral = Config("MistralForCausalLM");
  mistral["sliding_window"] = 1024;
  EXPECT_EQ(Get<uint32_t>(MustRead(mistral), "llama.attention.sliding_window"), 1024u);
  mistral["sliding_window"] = 4096;  // as long as the context, so no window
  EXPECT_EQ(Find(MustRead(mistral), "llama.attention.sliding_window"), nullptr);
  json windowed = Config("Qwen2ForCausalLM");
  windowed["sliding_window"] = 1024;
  windowed["use_sliding_window"] = false;
  EXPECT_EQ(Find(MustRead(windowed), "qwen2.attention.sliding_window"), nullptr);
  windowed["use_sliding_window"] = true;
  EXPECT_THAT(ErrorOf(windowed).detail, HasSubstr("use_sliding_window is true"));
}

TEST(HfConfigTest, MixturesOfExpertsHaveTheirKeys) {
  json mixtral = Config("MixtralForCausalLM");
  mixtral["num_local_experts"] = 8;
  mixtral["num_experts_per_tok"] = 2;
  HfConfig read = MustRead(mixtral);
  EXPECT_EQ(Get<uint32_t>(read, "llama.expert_count"), 8u);
  EXPECT_EQ(Get<uint32_t>(read, "llama.expert_used_count"), 2u);
  EXPECT_EQ(Get<uint32_t>(read, "llama.feed_forward_length"), 160u);
  mixtral["num_experts_per_tok"] = 9;
  EXPECT_THAT(ErrorOf(mixtral).detail, HasSubstr("num_experts_per_tok is 9, not a number from"));
  json qwen = Config("Qwen2MoeForCausalLM");
  qwen.update({{"num_experts", 16},
               {"num_experts_per_tok", 4},
               {"moe_intermediate_size", 32},
               {"shared_expert_intermediate_size", 96},
               {"norm_topk_prob", true},
               {"decoder_sparse_step", 1},
               {"mlp_only_layers", json::array()}});
  read = MustRead(qwen);
  EXPECT_EQ(Get<uint32_t>(read, "qwen2moe.expert_feed_forward_length"), 32u);
  EXPECT_EQ(Get<uint32_t>(read, "qwen2moe.expert_shared_feed_forward_length"), 96u);
  EXPECT_TRUE(Get<bool>(read, "qwen2moe.expert_weights_norm"));
  qwen["mlp_only_layers"] = {1};
  EXPECT_THAT(ErrorOf(qwen).detail, HasSubstr("mlp_only_layers is [1]; only [] is supported"));
}

// The expected divisors are those that the reference implementation computes for Llama 3.1's own
// numbers.
TEST(HfConfigTest, Llama3ScalingBecomesDivisors) {
  json config = Config();
  config["head_dim"] = 128;
  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 8192}};
  const HfConfig read = MustRead(config);
  ASSERT_EQ(read.rope_divisors.size(), 64u);
  EXPECT_EQ(read.rope_divisors[0], 1.0f);
  EXPECT_EQ(read.rope_divisors[28], 1.0f);  // its wavelength of 1956 is shorter than 8192 / 4
  EXPECT_EQ(read.rope_divisors[63], 8.0f);
  // Pair 30 has the wavelength 2 pi 500000^(60/128) = 2948.
  const double kept = (8192 / (2 * M_PI * std::pow(500000.0, 60.0 / 128)) - 1) / 3;
  EXPECT_NEAR(read.rope_divisors[30], 1 / ((1 - kept) / 8 + kept), 1e-6);
  EXPECT_EQ(Find(read, "llama.rope.scaling.type"), nullptr);
  config["rope_scaling"]["low_freq_factor"] = 4.0;
  EXPECT_THAT(ErrorOf(config).detail, HasSubstr("rope_scaling.low_freq_factor is not below"));
}

TEST(HfConfigTest, LinearAndYarnScalingBecomeMetadata) {
  json config = Config("Qwen2ForCausalLM");
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 2.5}};
  HfConfig read = MustRead(config);
  EXPECT_EQ(Get<std::string>(read, "qwen2.rope.scaling.type"), "linear");
  EXPECT_EQ(Get<float>(read, "qwen2.rope.scaling.factor"), 2.5f);
  config["rope_scaling"] = {{"rope_type", "yarn"},
                            {"factor", 4.0},
                            {"attention_factor", 1.0},
                            {"beta_fast", 16},
                            {"original_max_position_embeddings", 1024}};
  read = MustRead(config);
  EXPECT_EQ(Get<std::string>(read, "qwen2.rope.scaling.type"), "yarn");
  EXPECT_EQ(Get<uint32_t>(read, "qwen2.rope.scaling.original_context_length"), 1024u);
  EXPECT_EQ(Get<float>(read, "qwen2.rope.scaling.yarn_beta_fast"), 16.0f);
  EXPECT_EQ(Get<float>(read, "qwen2.rope.scaling.yarn_beta_slow"), 1.0f);
  EXPECT_EQ(Get<float>(read, "qwen2.rope.scaling.attn_factor"), 1.0f);
  // Newer files spell the same settings as rope_parameters.
  config.erase("rope_scaling");
  config.erase("rope_theta");
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e6}};
  EXPECT_EQ(Get<float>(MustRead(config), "qwen2.rope.freq_base"), 1e6f);
}

TEST(HfConfigTest, EndTokensComeFromBothFiles) {
  json config = Config();
  config["eos_token_id"] = 7;
  const auto ends = [](const HfConfig& read) {
    const auto array = Get<std::shared_ptr<const GgufArray>>(read, std::string(kEndTokensKey));
    return std::get<std::vector<int32_t>>(array->values);
  };
  EXPECT_THAT(ends(MustRead(config)), ElementsAre(7));
  EXPECT_THAT(ends(MustRead(config, R"({"eos_token_id":[5,7,9]})")), ElementsAre(5, 7, 9));
  EXPECT_THAT(ends(MustRead(config, R"({"eos_token_id":3})")), ElementsAre(3, 7));
  config["eos_token_id"] = nullptr;
  EXPECT_EQ(Find(MustRead(config), std::string(kEndTokensKey)), nullptr);
  EXPECT_THAT(ErrorOf(config, R"({"eos_token_id":"</s>"})").detail,
              HasSubstr("generation_config.json: eos_token_id is \"</s>\""));
  EXPECT_THAT(ErrorOf(config, "[]").detail, HasSubstr("generation_config.json: it is no JSON"));
}

TEST(HfConfigTest, WhatIsSenselessOrUnsupportedIsNamedByItsField) {
  const auto expect = [](const char* field, const json& value, ErrorCode code,
                         const std::string& what) {
    json config = Config();
    config[field] = value;
    const Error error = ErrorOf(config);
    EXPECT_EQ(error.code, code) << field << value;
    EXPECT_THAT(error.detail, HasSubstr("config.json: " + what));
  };
  const auto lost = ErrorCode::kDataLoss;
  const auto unsupported = ErrorCode::kUnsupported;
  expect("hidden_size", nullptr, lost, "hidden_size is missing");
  expect("hidden_size", 0, lost, "hidden_size is 0, not a number from 1 to");
  expect("hidden_size", -64, lost, "hidden_size is -64");
  expect("hidden_size", "64", lost, "hidden_size is \"64\"");
  expect("hidden_size", uint64_t{1} << 62, lost, "hidden_size is 4611686018427387904");
  expect("rms_norm_eps", 0, lost, "rms_norm_eps is 0, not a positive number");
  expect("rope_theta", "x", lost, "rope_theta is \"x\"");
  expect("tie_word_embeddings", 1, lost, "tie_word_embeddings is 1, not a bool");
  expect("rope_scaling", "x", lost, "rope_scaling is no object");
  expect("rope_scaling", json::object(), lost, "rope_scaling.rope_type is missing");
  expect("rope_scaling", {{"type", "linear"}}, lost, "rope_scaling.factor is missing");
  expect("architectures", nullptr, lost,
         "architectures is missing; supported are LlamaForCausalLM");
  expect("architectures", {"GPT2LMHeadModel"}, unsupported,
         "architectures is [\"GPT2LMHeadModel\"]; supported are LlamaForCausalLM, Mistral");
  expect("hidden_act", "gelu", unsupported, "hidden_act is \"gelu\"; only \"silu\"");
  expect("mlp_bias", true, unsupported, "mlp_bias is true");
  expect("quantization_config", {{"quant_method", "fp8"}}, unsupported,
         "quantization_config is \"fp8\"; supported are tensors of F32, F16 and BF16");
  expect("rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}, unsupported,
         "rope_scaling.type is \"dynamic\"; supported are default, linear, llama3 and yarn");
  expect("rope_scaling", {{"type", "yarn"}, {"factor", 2.0}, {"mscale", 0.7}}, unsupported,
         "rope_scaling.mscale is not supported");
  EXPECT_EQ(ReadHfConfig("{", "").error().code, lost);
}

TEST(HfConfigTest, TensorsGetTheirGgufNames) {
  EXPECT_EQ(GgufTensorName("model.embed_tokens.weight"), "token_embd.weight");
  EXPECT_EQ(GgufTensorName("lm_head.weight"), "output.weight");
  EXPECT_EQ(GgufTensorName("model.norm.weight"), "output_norm.weight");
  EXPECT_EQ(GgufTensorName("model.layers.12.self_attn.q_proj.bias"), "blk.12.attn_q.bias");
  EXPECT_EQ(GgufTensorName("model.layers.0.mlp.down_proj.weight"), "blk.0.ffn_down.weight");
  EXPECT_EQ(GgufTensorName("model.layers.0.self_attn.k_norm.weight"), "blk.0.attn_k_norm.weight");
  EXPECT_EQ(GgufTensorName("model.layers.3.mlp.experts.12.up_proj.weight"),
            "blk.3.ffn_up.12.weight");
  EXPECT_EQ(GgufTensorName("model.layers.3.block_sparse_moe.experts.0.w2.weight"),
            "blk.3.ffn_down.0.weight");
  EXPECT_EQ(GgufTensorName("model.layers.3.mlp.gate.weight"), "blk.3.ffn_gate_inp.weight");
  for (const char* name :
       {"", "model.layers.", "model.layers.1.mlp.experts.up_proj.weight", "model.layers.1",
        "model.layers.x.mlp.up_proj.weight", "model.layers.99999.mlp.up_proj.weight",
        "model.layers.1.mlp.up_proj", "model.layers.1.mlp.up_proj.weight_scale",
        "model.layers.1..weight", "transformer.wte"}) {
    EXPECT_EQ(GgufTensorName(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace kvgate::modelfile
