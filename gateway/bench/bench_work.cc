#include "gateway/bench/bench_work.h"

namespace kvgate::bench {
namespace {

// Numbers of weights that one row is multiplied with.
struct Products {
  double layer = 0;
  double keys_and_values = 0;  // of a layer
  double output = 0;
};

double QueryDim(const model::ModelConfig& config) {
  return static_cast<double>(config.num_heads) * config.head_dim;
}

Products CountProducts(const model::ModelConfig& config) {
  const double hidden = config.hidden_dim;
  const double kv_dim = static_cast<double>(config.num_kv_heads) * config.head_dim;
  const model::ExpertConfig& experts = config.experts;
  const double ffn_dim =
      config.ffn_dim + static_cast<double>(experts.num_used) * experts.ffn_dim + experts.shared_dim;
  return {.layer = hidden * (2 * QueryDim(config) + 2 * kv_dim + 3.0 * ffn_dim),
          .keys_and_values = hidden * 2 * kv_dim,
          .output = hidden * config.vocab_size};
}

}  // namespace

double PrefillOperations(const model::ModelConfig& config, double num_tokens) {
  const Products weights = CountProducts(config);
  const double products = (config.num_layers - 1) * weights.layer * num_tokens +
                          weights.keys_and_values * (num_tokens - 1) + weights.layer +
                          weights.output;
  const double attended = (config.num_layers - 1) * num_tokens * (num_tokens + 1) / 2 + num_tokens;
  return 2 * products + 4 * QueryDim(config) * attended;
}

double DecodeOperations(const model::ModelConfig& config, double context) {
  const Products weights = CountProducts(config);
  return 2 * (config.num_layers * weights.layer + weights.output) +
         4 * QueryDim(config) * config.num_layers * (context + 1);
}

double WeightBytesRead(const modelfile::ModelFile& file, const model::ModelConfig& config) {
  double bytes = 0;
  for (const modelfile::GgufTensor& tensor : file.tensors()) {
    if (tensor.name == "token_embd.weight" && !config.tied_embeddings) continue;
    double share = 1;
    if (tensor.dimensions.size() == 3) {
      share = static_cast<double>(config.experts.num_used) / config.experts.num_experts;
    }
    bytes += share * static_cast<double>(tensor.data.size());
  }
  return bytes;
}

}  // namespace kvgate::bench
