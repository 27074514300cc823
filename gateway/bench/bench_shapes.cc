#include "gateway/bench/bench_shapes.h"

#include <utility>

namespace kvgate::bench {
namespace {

const std::vector<std::pair<std::string_view, model::MakeModelOptions>>& Shapes() {
  static const std::vector<std::pair<std::string_view, model::MakeModelOptions>> kShapes = {
      {"0.5b",
       {.architecture = "qwen2",
        .num_layers = 24,
        .hidden_dim = 896,
        .num_heads = 14,
        .num_kv_heads = 2,
        .ffn_dim = 4864,
        .vocab_size = 151936,
        .context_length = 32768,
        .name = ""}},
      {"1b",
       {.architecture = "llama",
        .num_layers = 16,
        .hidden_dim = 2048,
        .num_heads = 32,
        .num_kv_heads = 8,
        .ffn_dim = 8192,
        .vocab_size = 128256,
        .context_length = 131072,
        .name = ""}},
      {"8b",
       {.architecture = "llama",
        .num_layers = 32,
        .hidden_dim = 4096,
        .num_heads = 32,
        .num_kv_heads = 8,
        .ffn_dim = 14336,
        .vocab_size = 128256,
        .context_length = 131072,
        .name = ""}},
  };
  return kShapes;
}

}  // namespace

std::optional<model::MakeModelOptions> FindBenchShape(std::string_view name) {
  for (const auto& [known, shape] : Shapes()) {
    if (known == name) return shape;
  }
  return std::nullopt;
}

std::vector<std::string> BenchShapeNames() {
  std::vector<std::string> names;
  for (const auto& [name, shape] : Shapes()) names.emplace_back(name);
  return names;
}

}  // namespace kvgate::bench
