// PlainTransformer is written independently of the engine's code, in double, from the
// architectures' papers and their authors' implementations. The real forward pass is tested against
// it.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/model/plain_rope.h"
#include "tests/engine/model/plain_shape.h"

namespace kvgate::model {

class PlainTransformer {
 public:
  PlainTransformer(const PlainShape& shape, const modelfile::ModelFile& file) : shape_(shape) {
    for (const modelfile::GgufTensor& tensor : file.tensors()) {
      const kernels::WeightFormat& format = *kernels::FindWeightFormat(tensor.type);
      int64_t count = 1;
      for (const int64_t dimension : tensor.dimensions) count *= dimension;
      std::vector<float>& values = tensors_[tensor.name];
      values.resize(static_cast<size_t>(count));
      kernels::DequantizeValues(format.dtype, tensor.data.data(), count, values.data());
    }
    const int context = shape.context_tokens > 0 ? shape.context_tokens : shape.context;
    const std::vector<float> factors =
        tensors_[context > shape.original_context ? "rope_factors_long.weight"
                                                  : "rope_factors_short.weight"];
    angles_ = PlainRope(shape, false, factors);
    local_angles_ = PlainRope(shape, true, factors);
  }

  // Returns true if the token at the first position attends to the one at the second, which is not
  // later.
  using Sees = std::function<bool(size_t, size_t)>;

  // Returns the normalised row of every position in front of the output. Without `sees`, a token
  // attends to all earlier ones that are inside its window.
  std::vector<std::vector<double>> Rows(const std::vector<int32_t>& tokens,
                                        const Sees& sees = nullptr) const {
    double multiplier = 1;
    if (shape_.is_gemma()) multiplier = std::sqrt(static_cast<double>(shape_.hidden));
    if (shape_.is_granite()) multiplier = kPlainEmbeddingMultiplier;
    std::vector<std::vector<double>> xs;
    for (const int32_t token : tokens) {
      const float* row = tensors_.at("token_embd.weight").data() + token * shape_.hidden;
      xs.emplace_back(row, row + shape_.hidden);
      for (double& value : xs.back()) value *= multiplier;
    }
    for (int layer = 0; layer < shape_.num_layers; ++layer) {
      const std::string prefix = "blk." + std::to_string(layer) + ".";
      Attention(layer, prefix, sees, xs);
      for (std::vector<double>& x : xs) FeedForward(prefix, x);
    }
    for (std::vector<double>& x : xs) x = Norm("output_norm.weight", x);
    return xs;
  }

  // Returns the logits of every position.
  std::vector<std::vector<double>> Run(const std::vector<int32_t>& tokens,
                                       const Sees& sees = nullptr) const {
    std::vector<std::vector<double>> logits;
    for (const std::vector<double>& row : Rows(tokens, sees)) {
      logits.push_back(
          Times(shape_.tied ? "token_embd.weight" : "output.weight", row, shape_.vocab));
      for (double& logit : logits.back()) {
        if (shape_.is_granite()) logit /= kPlainLogitsScaling;
        if (shape_.is({"gemma2"})) logit = 30 * std::tanh(logit / 30);
      }
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

  // Multiplies x by `rows` rows of the tensor, from `first_row` on.
  Row Times(const std::string& name, const Row& x, int rows, size_t first_row = 0) const {
    const float* weight = tensors_.at(name).data() + first_row * x.size();
    Row y(static_cast<size_t>(rows));
    for (size_t r = 0; r < y.size(); ++r) {
      for (size_t c = 0; c < x.size(); ++c) y[r] += x[c] * weight[r * x.size() + c];
    }
    return y;
  }

  void AddBias(const std::string& name, Row& x, size_t first = 0) const {
    for (size_t i = 0; i < x.size(); ++i) x[i] += tensors_.at(name)[first + i];
  }

  // Computes x += part, with the norm and the factor that the architecture applies to it.
  void AddPart(const std::string& post_norm, Row part, Row& x) const {
    if (shape_.has_post_norms()) part = Norm(post_norm, part);
    const double multiplier = shape_.is_granite() ? kPlainResidualMultiplier : 1;
    for (size_t i = 0; i < x.size(); ++i) x[i] += multiplier * part[i];
  }

  // --- attention --------------------------------------------------------------------------------

  bool HasWindow(int layer) const {
    if (shape_.window == 0) return false;
    if (shape_.is({"gemma2", "gpt-oss"})) return layer % 2 == 0;
    if (shape_.is({"gemma3"})) return (layer + 1) % 6 != 0;
    if (shape_.is({"olmo2"})) return (layer + 1) % 4 != 0;
    return true;
  }

  bool IsInterleaved() const { return shape_.is({"llama", "smollm3", "granite", "granitemoe"}); }

  // Rotates the pairs of each head.
  void Rope(Row& x, int num_heads, size_t position, const PlainAngles& angles) const {
    const int half = shape_.rotary_dim / 2;
    for (int head = 0; head < num_heads; ++head) {
      double* values = x.data() + head * shape_.head_dim;
      for (int i = 0; i < half; ++i) {
        const double angle =
            static_cast<double>(position) * angles.per_position[static_cast<size_t>(i)];
        const double cosine = angles.magnitude * std::cos(angle);
        const double sine = angles.magnitude * std::sin(angle);
        double& a = values[IsInterleaved() ? 2 * i : i];
        double& b = values[IsInterleaved() ? 2 * i + 1 : i + half];
        const double a_before = a;
        a = a_before * cosine - b * sine;
        b = a_before * sine + b * cosine;
      }
    }
  }

  // Returns q, k or v (`which`) of one token, ready for attention.
  Row Project(const std::string& prefix, char which, int layer, size_t position,
              const Row& normed) const {
    const int num_heads = which == 'q' ? shape_.num_heads : shape_.num_kv_heads;
    const int dim = num_heads * shape_.head_dim;
    const std::string name = prefix + "attn_" + which;
    Row x;
    if (shape_.is({"phi3"})) {
      const int q_dim = shape_.num_heads * shape_.head_dim;
      const int first = which == 'q' ? 0 : which == 'k' ? q_dim : q_dim + dim;
      x = Times(prefix + "attn_qkv.weight", normed, dim, static_cast<size_t>(first));
    } else {
      x = Times(name + ".weight", normed, dim);
    }
    if (shape_.has_qkv_bias()) AddBias(name + ".bias", x);
    if (which == 'v') return x;
    if (shape_.has_projection_norms()) x = Norm(name + "_norm.weight", x);
    if (shape_.has_head_norms()) {
      for (int head = 0; head < num_heads; ++head) {
        const auto begin = x.begin() + head * shape_.head_dim;
        const Row one = Norm(name + "_norm.weight", Row(begin, begin + shape_.head_dim));
        std::copy(one.begin(), one.end(), begin);
      }
    }
    const bool has_rope = !shape_.is({"smollm3"}) || (layer + 1) % 4 != 0;
    if (has_rope) Rope(x, num_heads, position, HasWindow(layer) ? local_angles_ : angles_);
    return x;
  }

  void Attention(int layer, const std::string& prefix, const Sees& sees,
                 std::vector<Row>& xs) const {
    std::vector<Row> keys;
    std::vector<Row> values;
    const Sees visible = [&](size_t p, size_t key) {
      if (HasWindow(layer) && p - key >= static_cast<size_t>(shape_.window)) return false;
      return sees == nullptr || sees(p, key);
    };
    for (size_t p = 0; p < xs.size(); ++p) {
      const Row normed = shape_.has_pre_norms() ? Norm(prefix + "attn_norm.weight", xs[p]) : xs[p];
      const Row q = Project(prefix, 'q', layer, p, normed);
      keys.push_back(Project(prefix, 'k', layer, p, normed));
      values.push_back(Project(prefix, 'v', layer, p, normed));
      Row out(q.size());
      for (int head = 0; head < shape_.num_heads; ++head) {
        AttendHead(prefix, q, head, visible, keys, values, out);
      }
      Row added = Times(prefix + "attn_output.weight", out, shape_.hidden);
      if (shape_.is({"gpt-oss"})) AddBias(prefix + "attn_output.bias", added);
      AddPart(prefix + "post_attention_norm.weight", std::move(added), xs[p]);
    }
  }

  double ScoreMultiplier() const {
    if (shape_.is_granite()) return kPlainAttentionMultiplier;
    // In the two 27B models, query_pre_attn_scalar is not the head size.
    const bool is_27b = (shape_.is({"gemma2"}) && shape_.num_layers == 46) ||
                        (shape_.is({"gemma3"}) && shape_.num_layers == 62);
    const int scalar = is_27b ? shape_.hidden / shape_.num_heads : shape_.head_dim;
    return 1 / std::sqrt(static_cast<double>(scalar));
  }

  // Adds one head's output for `q`, which belongs to the last position of `keys`.
  void AttendHead(const std::string& prefix, const Row& q, int head, const Sees& sees,
                  const std::vector<Row>& keys, const std::vector<Row>& values, Row& out) const {
    const int d = shape_.head_dim;
    const int kv_head = head / (shape_.num_heads / shape_.num_kv_heads);
    std::vector<double> weights;
    double sum = 0;
    if (shape_.is({"gpt-oss"})) {
      sum = std::exp(tensors_.at(prefix + "attn_sinks.weight")[static_cast<size_t>(head)]);
    }
    for (size_t p = 0; p < keys.size(); ++p) {
      double score = 0;
      for (int i = 0; i < d; ++i) score += q[head * d + i] * keys[p][kv_head * d + i];
      score *= ScoreMultiplier();
      if (shape_.is({"gemma2"})) score = 50 * std::tanh(score / 50);
      weights.push_back(sees(keys.size() - 1, p) ? std::exp(score) : 0.0);
      sum += weights.back();
    }
    for (size_t p = 0; p < keys.size(); ++p) {
      for (int i = 0; i < d; ++i) {
        out[head * d + i] += weights[p] / sum * values[p][kv_head * d + i];
      }
    }
  }

  // --- feed forward -----------------------------------------------------------------------------

  double Activate(double gate, double up) const {
    if (shape_.is_gemma()) {
      const double inner = std::sqrt(2 / std::numbers::pi) * (gate + 0.044715 * gate * gate * gate);
      return 0.5 * gate * (1 + std::tanh(inner)) * up;
    }
    if (shape_.is({"gpt-oss"})) {
      gate = std::min(gate, 7.0);
      up = std::min(std::max(up, -7.0), 7.0);
      return gate / (1 + std::exp(-1.702 * gate)) * (up + 1);
    }
    return gate / (1 + std::exp(-gate)) * up;
  }

  Row Activate(Row gate, const Row& up) const {
    for (size_t i = 0; i < gate.size(); ++i) gate[i] = Activate(gate[i], up[i]);
    return gate;
  }

  Row Dense(const std::string& prefix, const Row& x) const {
    const bool is_fused = shape_.is({"phi3"});
    const std::string gate_name = prefix + (is_fused ? "ffn_up.weight" : "ffn_gate.weight");
    const Row gate = Times(gate_name, x, shape_.ffn);
    const Row up = Times(prefix + "ffn_up.weight", x, shape_.ffn,
                         is_fused ? static_cast<size_t>(shape_.ffn) : 0);
    return Times(prefix + "ffn_down.weight", Activate(gate, up), shape_.hidden);
  }

  Row Expert(const std::string& prefix, size_t expert, const Row& x) const {
    const int ffn = shape_.expert_ffn > 0 ? shape_.expert_ffn : shape_.ffn;
    const auto product = [&](const std::string& part, const Row& input, int rows) {
      const std::string name = prefix + "ffn_" + part;
      if (shape_.one_tensor_each) {
        return Times(name + "." + std::to_string(expert) + ".weight", input, rows);
      }
      const size_t first = expert * static_cast<size_t>(rows);
      Row y = Times(name + "_exps.weight", input, rows, first);
      if (shape_.is({"gpt-oss"})) AddBias(name + "_exps.bias", y, first);
      return y;
    };
    return product("down", Activate(product("gate", x, ffn), product("up", x, ffn)), shape_.hidden);
  }

  // Returns the experts that a token is routed to, with their weights.
  std::vector<std::pair<size_t, double>> Route(const std::string& prefix, const Row& x) const {
    Row logits = Times(prefix + "ffn_gate_inp.weight", x, shape_.num_experts);
    if (shape_.is({"gpt-oss"})) AddBias(prefix + "ffn_gate_inp.bias", logits);
    std::vector<std::pair<size_t, double>> taken;
    double all = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      taken.emplace_back(i, std::exp(logits[i]));
      all += taken.back().second;
    }
    std::sort(taken.begin(), taken.end(),
              [](const auto& a, const auto& b) { return a.second > b.second; });
    taken.resize(static_cast<size_t>(shape_.num_used));
    double selected = 0;
    for (const auto& [expert, weight] : taken) selected += weight;
    // These models have norm_topk_prob false: the weights are shares of all experts.
    const bool is_of_all = shape_.is({"qwen2moe", "olmoe"});
    for (auto& [expert, weight] : taken) weight /= is_of_all ? all : selected;
    return taken;
  }

  Row Mixture(const std::string& prefix, const Row& x) const {
    Row sum(x.size());
    for (const auto& [expert, weight] : Route(prefix, x)) {
      const Row y = Expert(prefix, expert, x);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += weight * y[i];
    }
    if (shape_.shared_ffn == 0) return sum;
    const Row gate = Times(prefix + "ffn_gate_shexp.weight", x, shape_.shared_ffn);
    const Row up = Times(prefix + "ffn_up_shexp.weight", x, shape_.shared_ffn);
    const Row shared = Times(prefix + "ffn_down_shexp.weight", Activate(gate, up), shape_.hidden);
    double share = 1;
    if (shape_.is({"qwen2moe"})) {
      share = 1 / (1 + std::exp(-Times(prefix + "ffn_gate_inp_shexp.weight", x, 1)[0]));
    }
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += share * shared[i];
    return sum;
  }

  void FeedForward(const std::string& prefix, Row& x) const {
    const std::string norm =
        shape_.is({"gpt-oss"}) ? "post_attention_norm.weight" : "ffn_norm.weight";
    const Row input = shape_.has_pre_norms() ? Norm(prefix + norm, x) : x;
    AddPart(prefix + "post_ffw_norm.weight",
            shape_.num_experts > 0 ? Mixture(prefix, input) : Dense(prefix, input), x);
  }

  PlainShape shape_;
  std::map<std::string, std::vector<float>> tensors_;
  PlainAngles angles_;
  PlainAngles local_angles_;
};

}  // namespace kvgate::model
