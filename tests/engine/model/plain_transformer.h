// A transformer written once more, in double and without any of the engine's code, and random files
// for it: what the real forward is held against.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/model/gguf.h"

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

  bool is_qwen2() const { return architecture == "qwen2"; }
};

using PlainTensors = std::map<std::string, std::vector<float>>;

inline GgufWriter PlainFile(const PlainShape& shape) {
  GgufWriter writer;
  const std::string& arch = shape.architecture;
  const auto count = [&](const std::string& key, int value) {
    writer.Add(arch + "." + key, static_cast<uint32_t>(value));
  };
  writer.Add("general.architecture", arch);
  count("block_count", shape.num_layers);
  count("context_length", 256);
  count("embedding_length", shape.hidden);
  count("feed_forward_length", shape.ffn);
  count("attention.head_count", shape.num_heads);
  count("attention.head_count_kv", shape.num_kv_heads);
  count("attention.key_length", shape.head_dim);
  count("attention.value_length", shape.head_dim);
  count("rope.dimension_count", shape.rotary_dim);
  writer.Add(arch + ".rope.freq_base", static_cast<float>(shape.theta));
  writer.Add(arch + ".attention.layer_norm_rms_epsilon", shape.eps);
  const auto tensor = [&](const std::string& name, std::vector<int64_t> dimensions) {
    writer.AddTensor({.name = name, .dimensions = std::move(dimensions), .type = GgufType::kF32});
  };
  const int q_dim = shape.num_heads * shape.head_dim;
  const int kv_dim = shape.num_kv_heads * shape.head_dim;
  tensor("token_embd.weight", {shape.hidden, shape.vocab});
  tensor("output_norm.weight", {shape.hidden});
  if (!shape.tied) tensor("output.weight", {shape.hidden, shape.vocab});
  for (int layer = 0; layer < shape.num_layers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    tensor(prefix + "attn_norm.weight", {shape.hidden});
    tensor(prefix + "attn_q.weight", {shape.hidden, q_dim});
    tensor(prefix + "attn_k.weight", {shape.hidden, kv_dim});
    tensor(prefix + "attn_v.weight", {shape.hidden, kv_dim});
    if (shape.is_qwen2()) {
      tensor(prefix + "attn_q.bias", {q_dim});
      tensor(prefix + "attn_k.bias", {kv_dim});
      tensor(prefix + "attn_v.bias", {kv_dim});
    }
    tensor(prefix + "attn_output.weight", {q_dim, shape.hidden});
    tensor(prefix + "ffn_norm.weight", {shape.hidden});
    tensor(prefix + "ffn_gate.weight", {shape.hidden, shape.ffn});
    tensor(prefix + "ffn_up.weight", {shape.hidden, shape.ffn});
    tensor(prefix + "ffn_down.weight", {shape.ffn, shape.hidden});
  }
  return writer;
}

// Norm weights around 1, biases and matrices around 0; each tensor from a seed of its name.
inline void FillPlain(const GgufWriter::TensorSpec& spec, int64_t first_row,
                      std::span<std::byte> data) {
  std::seed_seq seed(spec.name.begin(), spec.name.end());
  std::mt19937 random(seed);
  random.discard(static_cast<unsigned long long>(first_row * spec.dimensions[0]));
  const bool is_norm = spec.name.find("norm") != std::string::npos;
  const float scale = is_norm || spec.dimensions.size() == 1
                          ? 0.3f
                          : 2.0f / std::sqrt(static_cast<float>(spec.dimensions[0]));
  for (size_t i = 0; i < data.size(); i += sizeof(float)) {
    const float unit = static_cast<float>(random()) / 2147483648.0f - 1;  // in [-1, 1]
    const float value = (is_norm ? 1.0f : 0.0f) + scale * unit;
    std::memcpy(data.data() + i, &value, sizeof(float));
  }
}

class PlainTransformer {
 public:
  PlainTransformer(const PlainShape& shape, const ModelFile& file) : shape_(shape) {
    for (const GgufTensor& tensor : file.tensors()) {
      std::vector<float>& values = tensors_[tensor.name];
      values.resize(tensor.data.size() / sizeof(float));
      std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
    }
  }

  // Whether the token at the first position attends to the one at the second, not behind it.
  using Sees = std::function<bool(size_t, size_t)>;

  // Logits of every position; without `sees` everything before is attended to.
  std::vector<std::vector<double>> Run(const std::vector<int32_t>& tokens,
                                       const Sees& sees = nullptr) const {
    std::vector<std::vector<double>> xs;
    for (const int32_t token : tokens) {
      const float* row = tensors_.at("token_embd.weight").data() + token * shape_.hidden;
      xs.emplace_back(row, row + shape_.hidden);
    }
    for (int layer = 0; layer < shape_.num_layers; ++layer) {
      const std::string prefix = "blk." + std::to_string(layer) + ".";
      Attention(prefix, sees, xs);
      for (std::vector<double>& x : xs) FeedForward(prefix, x);
    }
    std::vector<std::vector<double>> logits;
    for (const std::vector<double>& x : xs) {
      logits.push_back(Times(shape_.tied ? "token_embd.weight" : "output.weight",
                             Norm("output_norm.weight", x), shape_.vocab));
    }
    return logits;
  }

 private:
  using Row = std::vector<double>;

  Row Norm(const std::string& name, const Row& x) const {
    double squares = 0;
    for (const double value : x) squares += value * value;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + shape_.eps);
    Row y(x.size());
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * tensors_.at(name)[i];
    return y;
  }

  Row Times(const std::string& name, const Row& x, int rows, const std::string& bias = "") const {
    const std::vector<float>& weight = tensors_.at(name);
    Row y(static_cast<size_t>(rows));
    for (size_t r = 0; r < y.size(); ++r) {
      for (size_t c = 0; c < x.size(); ++c) y[r] += x[c] * weight[r * x.size() + c];
      if (!bias.empty()) y[r] += tensors_.at(bias)[r];
    }
    return y;
  }

  // Turns each head's pairs by position * theta^(-2 i / rotary_dim).
  void Rope(Row& x, int num_heads, size_t position) const {
    for (int head = 0; head < num_heads; ++head) {
      double* values = x.data() + head * shape_.head_dim;
      for (int i = 0; i < shape_.rotary_dim / 2; ++i) {
        const double angle =
            static_cast<double>(position) * std::pow(shape_.theta, -2.0 * i / shape_.rotary_dim);
        double& a = values[shape_.is_qwen2() ? i : 2 * i];
        double& b = values[shape_.is_qwen2() ? i + shape_.rotary_dim / 2 : 2 * i + 1];
        const double a_before = a;
        a = a_before * std::cos(angle) - b * std::sin(angle);
        b = a_before * std::sin(angle) + b * std::cos(angle);
      }
    }
  }

  void Attention(const std::string& prefix, const Sees& sees, std::vector<Row>& xs) const {
    const auto bias = [&](const char* name) {
      return shape_.is_qwen2() ? prefix + name : std::string();
    };
    std::vector<Row> keys;
    std::vector<Row> values;
    const int q_dim = shape_.num_heads * shape_.head_dim;
    const int kv_dim = shape_.num_kv_heads * shape_.head_dim;
    for (size_t p = 0; p < xs.size(); ++p) {
      const Row normed = Norm(prefix + "attn_norm.weight", xs[p]);
      Row q = Times(prefix + "attn_q.weight", normed, q_dim, bias("attn_q.bias"));
      keys.push_back(Times(prefix + "attn_k.weight", normed, kv_dim, bias("attn_k.bias")));
      values.push_back(Times(prefix + "attn_v.weight", normed, kv_dim, bias("attn_v.bias")));
      Rope(q, shape_.num_heads, p);
      Rope(keys.back(), shape_.num_kv_heads, p);
      Row out(static_cast<size_t>(q_dim));
      for (int head = 0; head < shape_.num_heads; ++head) {
        AttendHead(q, head, sees, keys, values, out);
      }
      const Row added = Times(prefix + "attn_output.weight", out, shape_.hidden);
      for (size_t i = 0; i < added.size(); ++i) xs[p][i] += added[i];
    }
  }

  // q is of the last of the keys' positions.
  void AttendHead(const Row& q, int head, const Sees& sees, const std::vector<Row>& keys,
                  const std::vector<Row>& values, Row& out) const {
    const int d = shape_.head_dim;
    const int kv_head = head / (shape_.num_heads / shape_.num_kv_heads);
    std::vector<double> weights;
    double sum = 0;
    for (size_t p = 0; p < keys.size(); ++p) {
      double score = 0;
      for (int i = 0; i < d; ++i) score += q[head * d + i] * keys[p][kv_head * d + i];
      const bool seen = sees == nullptr || sees(keys.size() - 1, p);
      weights.push_back(seen ? std::exp(score / std::sqrt(static_cast<double>(d))) : 0.0);
      sum += weights.back();
    }
    for (size_t p = 0; p < keys.size(); ++p) {
      for (int i = 0; i < d; ++i) {
        out[head * d + i] += weights[p] / sum * values[p][kv_head * d + i];
      }
    }
  }

  void FeedForward(const std::string& prefix, Row& x) const {
    const Row normed = Norm(prefix + "ffn_norm.weight", x);
    Row gate = Times(prefix + "ffn_gate.weight", normed, shape_.ffn);
    const Row up = Times(prefix + "ffn_up.weight", normed, shape_.ffn);
    for (size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
    const Row added = Times(prefix + "ffn_down.weight", gate, shape_.hidden);
    for (size_t i = 0; i < added.size(); ++i) x[i] += added[i];
  }

  PlainShape shape_;
  PlainTensors tensors_;
};

}  // namespace kvgate::model
