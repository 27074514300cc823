// This header has shapes of small models of every architecture, and writes random files of them. A
// shape has the fields of the authors' own configuration; the file says the same in GGUF keys and
// tensors.
#pragma once

#include <cmath>
#include <cstring>
#include <numbers>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/modelfile/gguf.h"
#include "kernels/weight_format.h"

namespace kvgate::model {

struct PlainShape {
  std::string architecture = "llama";
  int num_layers = 2;
  int hidden = 48;
  int num_heads = 6;
  int num_kv_heads = 2;
  int head_dim = 8;  // need not be hidden / num_heads
  int rotary_dim = 8;
  int ffn = 80;
  int vocab = 97;
  bool tied = false;
  double theta = 10000;
  float eps = 1e-5f;
  int context = 256;
  int window = 0;
  // One of none, linear, yarn, llama3 and longrope.
  std::string rope_scaling = "none";
  double rope_factor = 1;
  int original_context = 0;
  int context_tokens = 0;  // that the model is loaded for; 0 means `context`
  int num_experts = 0;
  int num_used = 0;
  int expert_ffn = 0;
  int shared_ffn = 0;
  bool one_tensor_each = false;  // one tensor per expert, as in old mixtral files
  modelfile::GgufType expert_type = modelfile::GgufType::kF32;

  bool is(const std::set<std::string>& names) const { return names.contains(architecture); }
  bool has_qkv_bias() const { return is({"qwen2", "qwen2moe", "gpt-oss"}); }
  bool has_head_norms() const { return is({"qwen3", "qwen3moe", "gemma3"}); }
  bool has_projection_norms() const { return is({"olmo2", "olmoe"}); }
  bool is_gemma() const { return is({"gemma", "gemma2", "gemma3"}); }
  bool has_pre_norms() const { return !is({"olmo2"}); }
  bool has_post_norms() const { return is({"gemma2", "gemma3", "olmo2"}); }
  bool is_granite() const { return is({"granite", "granitemoe"}); }
};

// These are granite's embedding_multiplier and the like.
inline constexpr float kPlainEmbeddingMultiplier = 12;
inline constexpr float kPlainAttentionMultiplier = 0.25f;
inline constexpr float kPlainResidualMultiplier = 0.22f;
inline constexpr float kPlainLogitsScaling = 8;

// These are the parameters of llama3's rope scaling, which files hold as frequency factors.
struct PlainLlama3 {
  static constexpr double kTheta = 500000;
  static constexpr double kFactor = 8;
  static constexpr double kLow = 1;
  static constexpr double kHigh = 4;
  static constexpr double kOriginalContext = 64;

  static double Divisor(double frequency) {
    const double wavelength = 2 * std::numbers::pi / frequency;
    if (wavelength < kOriginalContext / kHigh) return 1;
    if (wavelength > kOriginalContext / kLow) return kFactor;
    const double smooth = (kOriginalContext / wavelength - kLow) / (kHigh - kLow);
    return 1 / ((1 - smooth) / kFactor + smooth);
  }
};

class PlainFileMaker {
 public:
  explicit PlainFileMaker(const PlainShape& shape) : shape_(shape) {}

  modelfile::GgufWriter Make() {
    writer_.Add("general.architecture", shape_.architecture);
    AddShape();
    AddRope();
    if (shape_.num_experts > 0) AddExpertKeys();
    Tensor("token_embd.weight", {shape_.hidden, shape_.vocab});
    Tensor("output_norm.weight", {shape_.hidden});
    if (!shape_.tied) Tensor("output.weight", {shape_.hidden, shape_.vocab});
    for (int layer = 0; layer < shape_.num_layers; ++layer) {
      prefix_ = "blk." + std::to_string(layer) + ".";
      AddAttention();
      if (shape_.num_experts > 0) {
        AddExperts();
      } else {
        AddFeedForward();
      }
      if (shape_.has_post_norms()) {
        Tensor(prefix_ + "post_attention_norm.weight", {shape_.hidden});
        Tensor(prefix_ + "post_ffw_norm.weight", {shape_.hidden});
      }
    }
    return std::move(writer_);
  }

 private:
  std::string Key(const std::string& name) const { return shape_.architecture + "." + name; }
  void Count(const std::string& name, int value) {
    writer_.Add(Key(name), static_cast<uint32_t>(value));
  }
  void Number(const std::string& name, double value) {
    writer_.Add(Key(name), static_cast<float>(value));
  }
  void Tensor(const std::string& name, std::vector<int64_t> dimensions,
              modelfile::GgufType type = modelfile::GgufType::kF32) {
    writer_.AddTensor({.name = name, .dimensions = std::move(dimensions), .type = type});
  }

  void AddShape() {
    Count("block_count", shape_.num_layers);
    Count("context_length", shape_.context);
    Count("embedding_length", shape_.hidden);
    Count("feed_forward_length", shape_.ffn);
    Count("attention.head_count", shape_.num_heads);
    Count("attention.head_count_kv", shape_.num_kv_heads);
    Count("attention.key_length", shape_.head_dim);
    Count("attention.value_length", shape_.head_dim);
    Number("attention.layer_norm_rms_epsilon", shape_.eps);
    if (shape_.window > 0 || shape_.is({"phi3"})) {
      Count("attention.sliding_window", shape_.window);
    }
    if (shape_.is_granite()) {
      Number("embedding_scale", kPlainEmbeddingMultiplier);
      Number("attention.scale", kPlainAttentionMultiplier);
      Number("residual_scale", kPlainResidualMultiplier);
      Number("logit_scale", kPlainLogitsScaling);
    }
  }

  void AddRope() {
    Count("rope.dimension_count", shape_.rotary_dim);
    Number("rope.freq_base", shape_.theta);
    const std::string& scaling = shape_.rope_scaling;
    if (scaling == "linear" || scaling == "yarn") {
      writer_.Add(Key("rope.scaling.type"), scaling);
      Number("rope.scaling.factor", shape_.rope_factor);
    }
    if (shape_.original_context > 0) {
      Count("rope.scaling.original_context_length", shape_.original_context);
    }
    if (scaling == "llama3") Tensor("rope_freqs.weight", {shape_.rotary_dim / 2});
    if (scaling != "longrope") return;
    Tensor("rope_factors_long.weight", {shape_.rotary_dim / 2});
    Tensor("rope_factors_short.weight", {shape_.rotary_dim / 2});
  }

  void AddExpertKeys() {
    Count("expert_count", shape_.num_experts);
    Count("expert_used_count", shape_.num_used);
    if (shape_.expert_ffn > 0) Count("expert_feed_forward_length", shape_.expert_ffn);
    if (shape_.shared_ffn > 0) Count("expert_shared_feed_forward_length", shape_.shared_ffn);
  }

  void AddAttention() {
    const int q_dim = shape_.num_heads * shape_.head_dim;
    const int kv_dim = shape_.num_kv_heads * shape_.head_dim;
    if (shape_.has_pre_norms()) Tensor(prefix_ + "attn_norm.weight", {shape_.hidden});
    if (shape_.is({"phi3"})) {
      Tensor(prefix_ + "attn_qkv.weight", {shape_.hidden, q_dim + 2 * kv_dim});
    } else {
      Tensor(prefix_ + "attn_q.weight", {shape_.hidden, q_dim});
      Tensor(prefix_ + "attn_k.weight", {shape_.hidden, kv_dim});
      Tensor(prefix_ + "attn_v.weight", {shape_.hidden, kv_dim});
    }
    if (shape_.has_qkv_bias()) {
      Tensor(prefix_ + "attn_q.bias", {q_dim});
      Tensor(prefix_ + "attn_k.bias", {kv_dim});
      Tensor(prefix_ + "attn_v.bias", {kv_dim});
    }
    if (shape_.has_head_norms() || shape_.has_projection_norms()) {
      const bool is_whole = shape_.has_projection_norms();
      Tensor(prefix_ + "attn_q_norm.weight", {is_whole ? q_dim : shape_.head_dim});
      Tensor(prefix_ + "attn_k_norm.weight", {is_whole ? kv_dim : shape_.head_dim});
    }
    Tensor(prefix_ + "attn_output.weight", {q_dim, shape_.hidden});
    if (!shape_.is({"gpt-oss"})) return;
    Tensor(prefix_ + "attn_output.bias", {shape_.hidden});
    Tensor(prefix_ + "attn_sinks.weight", {shape_.num_heads});
  }

  void AddFeedForward() {
    if (shape_.has_pre_norms()) Tensor(prefix_ + "ffn_norm.weight", {shape_.hidden});
    const bool is_fused = shape_.is({"phi3"});
    if (!is_fused) Tensor(prefix_ + "ffn_gate.weight", {shape_.hidden, shape_.ffn});
    Tensor(prefix_ + "ffn_up.weight", {shape_.hidden, (is_fused ? 2 : 1) * shape_.ffn});
    Tensor(prefix_ + "ffn_down.weight", {shape_.ffn, shape_.hidden});
  }

  void AddExperts() {
    const bool is_gpt_oss = shape_.is({"gpt-oss"});
    const int experts = shape_.num_experts;
    const int ffn = shape_.expert_ffn > 0 ? shape_.expert_ffn : shape_.ffn;
    Tensor(prefix_ + (is_gpt_oss ? "post_attention_norm.weight" : "ffn_norm.weight"),
           {shape_.hidden});
    Tensor(prefix_ + "ffn_gate_inp.weight", {shape_.hidden, experts});
    for (const std::string part : {"gate", "up", "down"}) {
      const int64_t columns = part == "down" ? ffn : shape_.hidden;
      const int64_t rows = part == "down" ? shape_.hidden : ffn;
      if (shape_.one_tensor_each) {
        for (int i = 0; i < experts; ++i) {
          Tensor(prefix_ + "ffn_" + part + "." + std::to_string(i) + ".weight", {columns, rows});
        }
      } else {
        Tensor(prefix_ + "ffn_" + part + "_exps.weight", {columns, rows, experts},
               shape_.expert_type);
      }
      if (is_gpt_oss) Tensor(prefix_ + "ffn_" + part + "_exps.bias", {rows, experts});
    }
    if (is_gpt_oss) Tensor(prefix_ + "ffn_gate_inp.bias", {experts});
    if (shape_.shared_ffn == 0) return;
    Tensor(prefix_ + "ffn_gate_shexp.weight", {shape_.hidden, shape_.shared_ffn});
    Tensor(prefix_ + "ffn_up_shexp.weight", {shape_.hidden, shape_.shared_ffn});
    Tensor(prefix_ + "ffn_down_shexp.weight", {shape_.shared_ffn, shape_.hidden});
    if (shape_.is({"qwen2moe"})) Tensor(prefix_ + "ffn_gate_inp_shexp.weight", {shape_.hidden});
  }

  PlainShape shape_;
  modelfile::GgufWriter writer_;
  std::string prefix_;
};

inline modelfile::GgufWriter PlainFile(const PlainShape& shape) {
  return PlainFileMaker(shape).Make();
}

// Fills norm weights around 1, factors from 1 to 3, and biases and matrices around 0; each tensor's
// seed is its name. rope_freqs.weight holds llama3's factors.
inline void FillPlain(const modelfile::GgufWriter::TensorSpec& spec, int64_t first_row,
                      std::span<std::byte> data) {
  std::seed_seq seed(spec.name.begin(), spec.name.end());
  std::mt19937 random(seed);
  const int64_t columns = spec.dimensions[0];
  random.discard(static_cast<unsigned long long>(first_row * columns));
  const bool is_norm = spec.name.find("norm") != std::string::npos;
  const bool is_factor = spec.name.find("rope_factors") != std::string::npos;
  const float scale = is_factor ? 1.0f
                      : is_norm || spec.dimensions.size() == 1
                          ? 0.3f
                          : 2.0f / std::sqrt(static_cast<float>(columns));
  const float middle = is_factor ? 2.0f : is_norm ? 1.0f : 0.0f;
  const kernels::DType dtype = kernels::FindWeightFormat(static_cast<uint32_t>(spec.type))->dtype;
  const size_t row_bytes = kernels::DTypeBytes(dtype, static_cast<size_t>(columns));
  std::vector<float> values(static_cast<size_t>(columns));
  for (size_t at = 0; at < data.size(); at += row_bytes) {
    for (size_t i = 0; i < values.size(); ++i) {
      const float unit = static_cast<float>(random()) / 2147483648.0f - 1;  // in [-1, 1]
      values[i] = middle + scale * unit;
      if (spec.name != "rope_freqs.weight") continue;
      const double exponent = -static_cast<double>(i) / static_cast<double>(columns);
      values[i] = static_cast<float>(PlainLlama3::Divisor(std::pow(PlainLlama3::kTheta, exponent)));
    }
    kernels::QuantizeValues(dtype, values.data(), columns, data.data() + at);
  }
}

}  // namespace kvgate::model
