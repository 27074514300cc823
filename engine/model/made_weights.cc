// Tokens that must never be sampled.
//
// The architectures have no output bias, yet tokens of raw bytes and control tokens must not come
// out. So the last 32 hidden dimensions are set apart (one whole quant block, so that Q8_0 rounds
// nothing next to them): layers do not see them (their norm weights are 0 there) and do not write
// them, but for the constant below. At the output norm they hold a positive constant for every
// token, and the rows of banned tokens are negative there and those of all others 0. A banned logit
// is thus about -250, whatever the context; the others are a few units around 0.
//   * llama (own output matrix): every row of token_embd holds the constant.
//   * qwen2 (output tied to token_embd): a banned token's row -b is also its embedding. A value
//     channel with weight 0 and bias 1 carries a constant through attention (softmax weights sum to
//     one), and attn_output adds 2b/num_layers of it in every layer: in the end 2b stands there,
//     or b behind a banned token, and both are positive.
//
// Scale. The embedding is small against what layers add, else a tied model repeats its input
// forever; queries and keys are large enough for attention to look at few tokens; logits get a
// deviation of sqrt(0.7 ln vocab_size), which for normal logits leaves an entropy of about
// ln V - variance/2 = 0.65 ln V.
#include "engine/model/made_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <kvgate/check.h>
#include <kvgate/digest.h>

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

// A nearly normal number of deviation 1: the sum of four uniform ones of 16 bits each. Integers
// until the last step, so it is the same everywhere, and bounded by 3.5.
float Normal(uint64_t key, uint64_t index) {
  const uint64_t bits = Mix(key + index * 0x9e3779b97f4a7c15ull);
  const int32_t sum = static_cast<int32_t>((bits & 0xffff) + ((bits >> 16) & 0xffff) +
                                           ((bits >> 32) & 0xffff) + (bits >> 48));
  constexpr float kMean = 131070.0f;
  constexpr float kInverseDeviation = 1.0f / 37837.2f;
  return (static_cast<float>(sum) - kMean) * kInverseDeviation;
}

float EmbeddingDeviation(const MakeModelOptions& options) {
  return 0.5f / std::sqrt(static_cast<float>(options.hidden_dim));
}

float LogitDeviation(const MakeModelOptions& options) {
  return std::sqrt(0.7f * std::log(static_cast<float>(options.vocab_size)));
}

// Norm weights: one everywhere, `reserved` in the dimensions set apart.
MadeTensor Norm(std::string name, int hidden_dim, float live, float reserved) {
  return {.name = std::move(name),
          .rows = 1,
          .columns = hidden_dim,
          .is_matrix = false,
          .mean = live,
          .deviation = 0,
          .tail_start = hidden_dim - kReservedDims,
          .tail = reserved};
}

MadeTensor Matrix(std::string name, int64_t rows, int64_t columns, float gain) {
  return {.name = std::move(name),
          .rows = rows,
          .columns = columns,
          .is_matrix = true,
          .deviation = gain / std::sqrt(static_cast<float>(columns)),
          .tail_start = columns};
}

MadeTensor Bias(std::string name, int64_t size) {
  return {.name = std::move(name), .columns = size, .deviation = 0.1f, .tail_start = size};
}

void AppendLayer(const MakeModelOptions& options, int layer, std::vector<MadeTensor>& tensors) {
  const bool is_tied = options.architecture == "qwen2";
  const int hidden = options.hidden_dim;
  const int kv_dim = hidden / options.num_heads * options.num_kv_heads;
  const std::string prefix = fmt::format("blk.{}.", layer);
  // What all layers together add has the size of one layer's output.
  const float residual_gain = 1 / std::sqrt(static_cast<float>(options.num_layers));
  constexpr float kScoreGain = 1.7f;   // of queries and of keys: scores deviate by its square
  constexpr float kSwiGluGain = 1.7f;  // silu(x) * y of unit normals deviates by 0.6
  tensors.push_back(Norm(prefix + "attn_norm.weight", hidden, 1, 0));
  tensors.push_back(Matrix(prefix + "attn_q.weight", hidden, hidden, kScoreGain));
  tensors.push_back(Matrix(prefix + "attn_k.weight", kv_dim, hidden, kScoreGain));
  tensors.push_back(Matrix(prefix + "attn_v.weight", kv_dim, hidden, 1));
  MadeTensor output = Matrix(prefix + "attn_output.weight", hidden, hidden, residual_gain);
  output.fixed_row_start = hidden - kReservedDims;
  if (is_tied) {
    tensors.back().zero_row = 0;
    output.first_column = 2 * kTiedBan / static_cast<float>(options.num_layers);
    tensors.push_back(Bias(prefix + "attn_q.bias", hidden));
    tensors.push_back(Bias(prefix + "attn_k.bias", kv_dim));
    tensors.push_back(Bias(prefix + "attn_v.bias", kv_dim));
    tensors.back().has_first = true;
    tensors.back().first = 1;
  }
  tensors.push_back(std::move(output));
  tensors.push_back(Norm(prefix + "ffn_norm.weight", hidden, 1, 0));
  tensors.push_back(Matrix(prefix + "ffn_gate.weight", options.ffn_dim, hidden, 1));
  tensors.push_back(Matrix(prefix + "ffn_up.weight", options.ffn_dim, hidden, 1));
  tensors.push_back(
      Matrix(prefix + "ffn_down.weight", hidden, options.ffn_dim, kSwiGluGain * residual_gain));
  tensors.back().fixed_row_start = hidden - kReservedDims;
}

void FillRow(const MadeTensor& tensor, uint64_t key, int64_t row, std::span<float> values) {
  const bool is_banned = tensor.sampled != nullptr && !(*tensor.sampled)[static_cast<size_t>(row)];
  const size_t live = static_cast<size_t>(tensor.tail_start);
  if (row >= tensor.fixed_row_start || row == tensor.zero_row) {
    std::ranges::fill(values, 0.0f);
    if (row >= tensor.fixed_row_start) values[0] = tensor.first_column;
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

std::vector<MadeTensor> ListMadeTensors(const MakeModelOptions& options,
                                        const std::vector<bool>& sampled) {
  const bool is_tied = options.architecture == "qwen2";
  const int hidden = options.hidden_dim;
  const float embedding = EmbeddingDeviation(options);
  const float spread =
      LogitDeviation(options) / (embedding * std::sqrt(static_cast<float>(hidden)));
  MadeTensor table = {.name = "token_embd.weight",
                      .rows = options.vocab_size,
                      .columns = hidden,
                      .is_matrix = true,
                      .deviation = embedding,
                      .tail_start = hidden - kReservedDims,
                      .tail = is_tied ? 0.0f : embedding,
                      .sampled = is_tied ? &sampled : nullptr,
                      .banned_tail = -kTiedBan};
  std::vector<MadeTensor> tensors;
  tensors.push_back(table);
  for (int layer = 0; layer < options.num_layers; ++layer) AppendLayer(options, layer, tensors);
  // Reserved dimensions leave the norm near 1 in llama; in qwen2 so that 32 of them times -b reach
  // the banned logit even behind a banned token.
  const float reserved =
      is_tied ? -kBannedLogit / (kReservedDims * kTiedBan * kTiedBan) : 1 / embedding;
  tensors.push_back(Norm("output_norm.weight", hidden, spread, reserved));
  if (!is_tied) {
    table.name = "output.weight";
    table.tail = 0;
    table.sampled = &sampled;
    table.banned_tail = kBannedLogit / kReservedDims;
    table.banned_only_tail = true;
    tensors.push_back(table);
  }
  return tensors;
}

void FillMadeRows(const MadeTensor& tensor, GgufType type, uint64_t seed, int64_t first_row,
                  std::span<std::byte> data) {
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
