// Sizes: the amounts that the benchmark measures: for reported figures, for a quick run, and for a
// tiny model that a test runs in seconds on a CPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/make_model.h"

namespace kvgate::bench::gpu {

// Agents share a prefix and grow by the outputs of tools and of the model.
struct AgentSizes {
  int common_tokens = 20480;  // system prompt and tools, the same for all sessions
  int first_tokens = 10240;   // of a session's own first turn
  int turn_tokens = 2048;     // new in every later turn
  int output_tokens = 900;    // of every turn
  int num_turns = 30;
  std::vector<int> sessions = {1, 8, 32};  // numbers of concurrent sessions
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
  int tail_tokens = 32;  // after a prefix, new in every request
  AgentSizes agents = {};
  // KV pool on the CPU, where no device memory determines it; also the host arena.
  uint64_t cpu_kv_bytes = 0;
  double seconds_per_kernel = 0.05;
};

// Accepts "llama-3.1-8b" or "tiny"; nullopt for another name.
std::optional<Sizes> FindSizes(std::string_view shape, bool is_quick);
std::vector<std::string> SizesNames();

}  // namespace kvgate::bench::gpu
