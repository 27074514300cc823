// Sizes: how much of everything the benchmark asks for: of the figures as they are reported, of a
// quick look, and of a tiny model that a test runs in seconds on a CPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/make_model.h"

namespace kvgate::cli::gpu_bench {

// Agents that share a beginning and grow by what tools and the model say.
struct AgentSizes {
  int common_tokens = 20480;  // system prompt and tools, the same for all sessions
  int first_tokens = 10240;   // of a session's own first turn
  int turn_tokens = 2048;     // new in every turn behind it
  int output_tokens = 900;    // of every turn
  int num_turns = 30;
  std::vector<int> sessions = {1, 8, 32};  // at once
};

struct Sizes {
  model::MakeModelOptions shape;
  int step_tokens = 2048;  // of one engine step
  int short_context = 512;
  int long_context = 20480;
  int decode_tokens = 128;
  int batch = 64;
  std::vector<int> prefills = {8192, 20480};
  std::vector<int> prefixes = {1024, 4096, 20480, 65536};
  int tail_tokens = 32;  // behind a prefix, new in every request
  AgentSizes agents = {};
  // On the CPU, where there is no device memory to be filled: KV pool, host arena.
  uint64_t cpu_kv_bytes = 0;
  double seconds_per_kernel = 0.05;
};

// "llama-3.1-8b" or "tiny"; nullopt for another name.
std::optional<Sizes> FindSizes(std::string_view shape, bool is_quick);
std::vector<std::string> SizesNames();

}  // namespace kvgate::cli::gpu_bench
