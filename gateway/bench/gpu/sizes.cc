#include "gateway/bench/gpu/sizes.h"

#include "gateway/bench/bench_shapes.h"

namespace kvgate::bench::gpu {
namespace {

constexpr std::string_view kReal = "llama-3.1-8b";
constexpr std::string_view kTiny = "tiny";

Sizes RealSizes(bool is_quick) {
  Sizes sizes{.shape = FindBenchShape("8b").value(), .cpu_kv_bytes = uint64_t{16} << 30};
  if (!is_quick) return sizes;
  sizes.decode_tokens = 32;
  sizes.prefixes = {1024, 4096, 20480};
  sizes.agents.num_turns = 4;
  sizes.agents.output_tokens = 128;
  sizes.agents.sessions = {1, 8};
  sizes.seconds_per_kernel = 0.02;
  return sizes;
}

// Covers every kind of figure with a thirty-second of the tokens.
Sizes TinySizes(bool is_quick) {
  Sizes sizes{
      .shape = {.architecture = "llama",
                .num_layers = 2,
                .hidden_dim = 256,
                .num_heads = 4,
                .num_kv_heads = 2,
                .ffn_dim = 512,
                .vocab_size = 1024,
                .context_length = 8192,
                .name = "tiny"},
      .step_tokens = 512,
      .short_context = 32,
      .long_context = 640,
      .decode_tokens = 32,
      .batch = 64,
      .prefills = {256, 640},
      .prefixes = {32, 128, 640, 2048},
      .tail_tokens = 32,
      .agents = {.common_tokens = 640, .first_tokens = 320, .turn_tokens = 64, .output_tokens = 28},
      .cpu_kv_bytes = uint64_t{32} << 20,
      .seconds_per_kernel = 0.01};
  if (!is_quick) return sizes;
  sizes.decode_tokens = 8;
  sizes.batch = 16;
  sizes.agents.num_turns = 3;
  sizes.agents.output_tokens = 8;
  sizes.agents.sessions = {1, 4};
  sizes.seconds_per_kernel = 0.001;
  return sizes;
}

}  // namespace

std::optional<Sizes> FindSizes(std::string_view shape, bool is_quick) {
  if (shape == kReal) return RealSizes(is_quick);
  if (shape == kTiny) return TinySizes(is_quick);
  return std::nullopt;
}

std::vector<std::string> SizesNames() { return {std::string(kReal), std::string(kTiny)}; }

}  // namespace kvgate::bench::gpu
