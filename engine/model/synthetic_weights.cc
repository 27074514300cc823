// How tokens are banned from the output.
//
// The architectures have no output bias, yet raw-byte and control tokens must not be generated. So
// the last 32 hidden dimensions are reserved (one whole quant block, so that Q8_0 rounds no value
// next to them): layers do not read them (their norm weights are 0 there) and do not write them,
// except for the constant below. At the output norm they hold a positive constant for every token;
// the output rows of banned tokens are negative there and those of all others 0. A banned logit is
// thus about -250 in any context; the others are a few units around 0.
//   * All but qwen2 (own output matrix): every row of token_embd holds the constant. The weights of
//     norms after a part are 0 there, too.
//   * qwen2 (output tied to token_embd): a banned token's row -b is also its embedding. A value
//     channel with weight 0 and bias 1 carries a constant through attention (softmax weights sum to
//     one), and attn_output adds 2b/num_layers of it in every layer: the final value there is 2b,
//     or b after a banned token, and both are positive.
//
// Scale. The embedding is small compared with what layers add; otherwise a tied model repeats its
// input forever. Queries and keys are large enough for attention to focus on few tokens. Logits
// have a deviation of sqrt(0.7 ln vocab_size), which for normal logits leaves an entropy of about
// ln V - variance/2 = 0.65 ln V.
#include "engine/model/synthetic_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "base/digest.h"
#include "engine/model/architecture.h"
#include "kernels/weight_format.h"

namespace kvgate::model {
namespace {

constexpr int kReservedDims = 32;
constexpr float kBannedLogit = -250;
constexpr float kTiedBan = 0.125f;  // b above

uint64_t Mix(uint64_t x) {  // the finalizer of splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Returns a nearly normal number of deviation 1: the sum of four uniform ones of 16 bits each. It
// uses integers until the last step, so the result is the same on every machine; it is bounded by
// 3.5.
float Normal(uint64_t key, uint64_t index) {
  const uint64_t bits = Mix(key + index * 0x9e3779b97f4a7c15ull);
  const int32_t sum = static_cast<int32_t>((bits & 0xffff) + ((bits >> 16) & 0xffff) +
                                           ((bits >> 32) & 0xffff) + (bits >> 48));
  constexpr float kMean = 131070.0f;
  constexpr float kInverseDeviation = 1.0f / 37837.2f;
  return (static_cast<float>(sum) - kMean) * kInverseDeviation;
}

// Deviation in the residual stream; the table has less if the model multiplies its embeddings.
float EmbeddingDeviation(const MakeModelOptions& options) {
  return 0.5f / std::sqrt(static_cast<float>(options.hidden_dim));
}

float LogitDeviation(const MakeModelOptions& options) {
  return std::sqrt(0.7f * std::log(static_cast<float>(options.vocab_size)));
}

// Norm weights: `live` everywhere except `reserved` in the reserved dimensions.
SyntheticTensor Norm(std::string name, int hidden_dim, float live, float reserved) {
  return {.name = std::move(name),
          .rows = 1,
          .columns = hidden_dim,
          .is_matrix = false,
          .mean = live,
          .deviation = 0,
          .tail_start = hidden_dim - kReservedDims,
          .tail = reserved};
}

SyntheticTensor Matrix(std::string name, int64_t rows, int64_t columns, float gain) {
  return {.name = std::move(name),
          .rows = rows,
          .columns = columns,
          .is_matrix = true,
          .deviation = gain / std::sqrt(static_cast<float>(columns)),
          .tail_start = columns};
}

SyntheticTensor Bias(std::string name, int64_t size) {
  return {.name = std::move(name), .columns = size, .deviation = 0.1f, .tail_start = size};
}

constexpr float kScoreGain = 1.7f;  // of queries and of keys: the deviation of scores is its square
constexpr float kSwiGluGain = 1.7f;  // silu(x) * y of unit normals has a deviation of 0.6

// Appends the tensors of one layer in file order.
class LayerMaker {
 public:
  LayerMaker(const MakeModelOptions& options, int layer, std::vector<SyntheticTensor>& tensors)
      : options_(options),
        architecture_(*FindArchitecture(options.architecture)),
        tensors_(tensors),
        prefix_(fmt::format("blk.{}.", layer)),
        is_tied_(options.architecture == "qwen2"),
        hidden_(options.hidden_dim),
        kv_dim_(hidden_ / options.num_heads * options.num_kv_heads),
        residual_gain_(1 / std::sqrt(static_cast<float>(options.num_layers)) /
                       ScalesOf(options).residual) {}

  void Append() {
    if (architecture_.pre_norms) Add(Norm("attn_norm.weight", hidden_, 1, 0));
    Attention();
    if (architecture_.post_norms) PostNorm("post_attention_norm.weight");
    if (architecture_.pre_norms) {
      Add(Norm(std::string(architecture_.ffn_norm) + ".weight", hidden_, 1, 0));
    }
    if (options_.num_experts > 0) {
      Experts();
    } else {
      FeedForward();
    }
    if (architecture_.post_norms) PostNorm("post_ffw_norm.weight");
  }

 private:
  SyntheticTensor& Add(SyntheticTensor tensor) {
    tensor.name = prefix_ + tensor.name;
    tensors_.push_back(std::move(tensor));
    return tensors_.back();
  }
  // Adds a matrix whose rows of the reserved dimensions are zero.
  SyntheticTensor& AddWriter(SyntheticTensor tensor) {
    tensor.fixed_row_start = hidden_ - kReservedDims;
    return Add(std::move(tensor));
  }
  // Adds a bias that is 0 in the reserved dimensions.
  SyntheticTensor& AddWriterBias(const char* name) {
    SyntheticTensor& bias = Add(Bias(name, hidden_));
    bias.tail_start = hidden_ - kReservedDims;
    return bias;
  }
  void PostNorm(const char* name) { Add(Norm(name, hidden_, residual_gain_, 0)); }

  void Attention() {
    const int head_dim = hidden_ / options_.num_heads;
    // The scores of granite have a smaller factor than those of the others.
    const float scale = ScalesOf(options_).attention * std::sqrt(static_cast<float>(head_dim));
    const bool has_norms = architecture_.qk_norm != QkNorm::kNone;
    const float gain = has_norms ? 1 : kScoreGain / std::sqrt(scale);
    if (architecture_.fused_gate_up) {  // such an architecture fuses the projections, too
      Add(Matrix("attn_qkv.weight", hidden_ + 2 * kv_dim_, hidden_, gain));
    } else {
      Add(Matrix("attn_q.weight", hidden_, hidden_, gain));
      Add(Matrix("attn_k.weight", kv_dim_, hidden_, gain));
      Add(Matrix("attn_v.weight", kv_dim_, hidden_, 1)).zero_row = is_tied_ ? 0 : -1;
    }
    if (architecture_.qkv_bias) {
      Add(Bias("attn_q.bias", hidden_));
      Add(Bias("attn_k.bias", kv_dim_));
      SyntheticTensor& bias = Add(Bias("attn_v.bias", kv_dim_));
      bias.has_first = is_tied_;
      bias.first = is_tied_ ? 1 : 0;
    }
    if (has_norms) {
      const bool is_head = architecture_.qk_norm == QkNorm::kHead;
      for (const auto& [name, dim] :
           {std::pair("attn_q_norm.weight", hidden_), std::pair("attn_k_norm.weight", kv_dim_)}) {
        const int size = is_head ? head_dim : dim;
        Add({.name = name, .columns = size, .mean = kScoreGain, .tail_start = size});
      }
    }
    if (architecture_.attention_sinks) Add(Bias("attn_sinks.weight", options_.num_heads));
    SyntheticTensor& output =
        AddWriter(Matrix("attn_output.weight", hidden_, hidden_, WriterGain()));
    if (is_tied_) output.first_column = 2 * kTiedBan / static_cast<float>(options_.num_layers);
    if (architecture_.output_bias) AddWriterBias("attn_output.bias");
  }

  // With this gain, the sum over all layers has the size of a single layer's output.
  float WriterGain() const { return architecture_.post_norms ? 1 : residual_gain_; }

  void FeedForward() {
    const int ffn = options_.ffn_dim;
    if (architecture_.fused_gate_up) {
      Add(Matrix("ffn_up.weight", 2 * ffn, hidden_, 1));
    } else {
      Add(Matrix("ffn_gate.weight", ffn, hidden_, 1));
      Add(Matrix("ffn_up.weight", ffn, hidden_, 1));
    }
    AddWriter(Matrix("ffn_down.weight", hidden_, ffn, kSwiGluGain * WriterGain()));
  }

  void Experts() {
    const int ffn = options_.ffn_dim;
    const int count = options_.num_experts;
    // The router is F32 as in all files, because the choice of experts depends on its last bits.
    Add(Matrix("ffn_gate_inp.weight", count, hidden_, 1.5f)).is_matrix = false;
    const auto stack = [&](SyntheticTensor tensor) {
      tensor.rows *= count;
      tensor.num_matrices = count;
      return tensor;
    };
    const float down_gain =
        kSwiGluGain * residual_gain_ * std::sqrt(static_cast<float>(options_.num_experts_used));
    Add(stack(Matrix("ffn_gate_exps.weight", ffn, hidden_, 1)));
    Add(stack(Matrix("ffn_up_exps.weight", ffn, hidden_, 1)));
    AddWriter(stack(Matrix("ffn_down_exps.weight", hidden_, ffn, down_gain)));
    if (architecture_.expert_biases) {
      Add(Bias("ffn_gate_inp.bias", count));
      Add(Bias("ffn_gate_exps.bias", ffn)).rows = count;
      Add(Bias("ffn_up_exps.bias", ffn)).rows = count;
      AddWriterBias("ffn_down_exps.bias").rows = count;
    }
    if (!architecture_.shared_gate) return;
    Add(Matrix("ffn_gate_shexp.weight", ffn, hidden_, 1));
    Add(Matrix("ffn_up_shexp.weight", ffn, hidden_, 1));
    AddWriter(Matrix("ffn_down_shexp.weight", hidden_, ffn, kSwiGluGain * residual_gain_));
    Add(Matrix("ffn_gate_inp_shexp.weight", 1, hidden_, 1)).is_matrix = false;
  }

  const MakeModelOptions& options_;
  const Architecture& architecture_;
  std::vector<SyntheticTensor>& tensors_;
  const std::string prefix_;
  const bool is_tied_;
  const int hidden_;
  const int kv_dim_;
  const float residual_gain_;
};

SyntheticTensor Values(std::string name, std::vector<float> values) {
  return {.name = std::move(name),
          .columns = std::ssize(values),
          .values = std::move(values),
          .tail_start = 0};
}

// Appends the tensors that scale rope. For llama they are those of llama3's converter, for phi3 a
// set similar to longrope's.
void AppendRopeFactors(const MakeModelOptions& options, std::vector<SyntheticTensor>& tensors) {
  if (options.rope_original_context == 0) return;
  const int half = options.hidden_dim / options.num_heads / 2;
  const auto original = static_cast<double>(options.rope_original_context);
  const double factor = options.context_length / original;
  std::vector<float> factors;
  if (options.architecture == "llama") {
    for (int i = 0; i < half; ++i) {
      const double wavelength =
          2 * std::numbers::pi * std::pow(10000.0, static_cast<double>(i) / half);
      const double kept = std::clamp((original / wavelength - 1) / 3, 0.0, 1.0);
      factors.push_back(static_cast<float>(1 / ((1 - kept) / factor + kept)));
    }
    tensors.push_back(Values("rope_freqs.weight", factors));
  } else if (options.architecture == "phi3") {
    for (int i = 0; i < half; ++i) {
      factors.push_back(static_cast<float>(1 + (factor - 1) * i / half));
    }
    tensors.push_back(Values("rope_factors_long.weight", factors));
    tensors.push_back(
        Values("rope_factors_short.weight", std::vector<float>(static_cast<size_t>(half), 1.0f)));
  }
}

void FillRow(const SyntheticTensor& tensor, uint64_t key, int64_t row, std::span<float> values) {
  const bool is_banned = tensor.sampled != nullptr && !(*tensor.sampled)[static_cast<size_t>(row)];
  const size_t live = static_cast<size_t>(tensor.tail_start);
  if (!tensor.values.empty()) {
    std::ranges::copy(tensor.values, values.begin());
    return;
  }
  const int64_t own_row = row % (tensor.rows / tensor.num_matrices);
  if (own_row >= tensor.fixed_row_start || row == tensor.zero_row) {
    std::ranges::fill(values, 0.0f);
    if (own_row >= tensor.fixed_row_start) values[0] = tensor.first_column;
    return;
  }
  if (tensor.deviation == 0 || (is_banned && tensor.banned_only_tail)) {
    std::ranges::fill(values.first(live), tensor.deviation == 0 ? tensor.mean : 0.0f);
  } else {
    const uint64_t base = static_cast<uint64_t>(row) * values.size();
    for (size_t i = 0; i < live; ++i) {
      values[i] = tensor.mean + tensor.deviation * Normal(key, base + i);
    }
  }
  std::ranges::fill(values.subspan(live), is_banned ? tensor.banned_tail : tensor.tail);
  if (tensor.has_first) values[0] = tensor.first;
}

}  // namespace

std::vector<int64_t> SyntheticDimensions(const SyntheticTensor& tensor) {
  if (tensor.num_matrices > 1) {
    return {tensor.columns, tensor.rows / tensor.num_matrices, tensor.num_matrices};
  }
  if (tensor.rows > 1 || tensor.is_matrix) return {tensor.columns, tensor.rows};
  return {tensor.columns};
}

SyntheticScales ScalesOf(const MakeModelOptions& options) {
  const Architecture& architecture = *FindArchitecture(options.architecture);
  const auto head_dim = static_cast<float>(options.hidden_dim / options.num_heads);
  if (architecture.has_scales) {
    return {.embedding = 12, .residual = 0.22f, .logit = 8, .attention = 1 / head_dim};
  }
  const bool is_scaled = architecture.scales_embedding;
  return {.embedding = is_scaled ? std::sqrt(static_cast<float>(options.hidden_dim)) : 1,
          .residual = 1,
          .logit = 1,
          .attention = 1 / std::sqrt(head_dim)};
}

std::vector<SyntheticTensor> ListSyntheticTensors(const MakeModelOptions& options,
                                                  const std::vector<bool>& sampled) {
  const bool is_tied = options.architecture == "qwen2";
  const int hidden = options.hidden_dim;
  const SyntheticScales scales = ScalesOf(options);
  const float embedding = EmbeddingDeviation(options);
  const float spread =
      scales.logit * LogitDeviation(options) / (embedding * std::sqrt(static_cast<float>(hidden)));
  SyntheticTensor table = {.name = "token_embd.weight",
                           .rows = options.vocab_size,
                           .columns = hidden,
                           .is_matrix = true,
                           .deviation = embedding / scales.embedding,
                           .tail_start = hidden - kReservedDims,
                           .tail = is_tied ? 0.0f : embedding / scales.embedding,
                           .sampled = is_tied ? &sampled : nullptr,
                           .banned_tail = -kTiedBan};
  std::vector<SyntheticTensor> tensors;
  tensors.push_back(table);
  AppendRopeFactors(options, tensors);
  for (int layer = 0; layer < options.num_layers; ++layer) {
    LayerMaker(options, layer, tensors).Append();
  }
  // With an own output matrix the reserved dimensions keep the norm near 1. In qwen2 they are so
  // large that 32 of them times -b reach the banned logit even after a banned token.
  const float reserved =
      is_tied ? -kBannedLogit / (kReservedDims * kTiedBan * kTiedBan) : scales.logit / embedding;
  tensors.push_back(Norm("output_norm.weight", hidden, spread, reserved));
  if (!is_tied) {
    table.name = "output.weight";
    table.deviation = embedding;
    table.tail = 0;
    table.sampled = &sampled;
    table.banned_tail = kBannedLogit / kReservedDims;
    table.banned_only_tail = true;
    tensors.push_back(table);
  }
  return tensors;
}

void FillSyntheticRows(const SyntheticTensor& tensor, modelfile::GgufType type, uint64_t seed,
                       int64_t first_row, std::span<std::byte> data) {
  const kernels::WeightFormat* format = kernels::FindWeightFormat(static_cast<uint32_t>(type));
  KVGATE_CHECK(format != nullptr, "a type without a format");
  const size_t row_bytes = kernels::DTypeBytes(format->dtype, static_cast<size_t>(tensor.columns));
  const uint64_t key = Xxh3(std::as_bytes(std::span(tensor.name)), Mix(seed)).first;
  std::vector<float> values(static_cast<size_t>(tensor.columns));
  const int64_t num_rows = static_cast<int64_t>(data.size() / row_bytes);
  for (int64_t i = 0; i < num_rows; ++i) {
    FillRow(tensor, key, first_row + i, values);
    kernels::QuantizeValues(format->dtype, values.data(), tensor.columns,
                            data.data() + static_cast<size_t>(i) * row_bytes);
  }
}

}  // namespace kvgate::model
