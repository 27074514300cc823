// Agents: sessions side by side that share a long beginning and grow turn by turn, with the prefix
// cache and without it.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "gateway/cli/gpu_bench/run.h"

namespace kvgate::cli::gpu_bench {

struct AgentTurn {
  int session = 0;
  int turn = 0;
  double ttft_ms = 0;
  bool is_whole = true;  // else it was cut behind its first token
  engine::RequestStats stats;
};

struct AgentReport {
  std::vector<AgentTurn> turns;  // that had a first token
  double seconds = 0;            // until the last answer, or until it was cut short
  uint64_t num_output_tokens = 0;
  int num_turns_wanted = 0;
  int num_answered() const {
    return static_cast<int>(std::ranges::count_if(turns, &AgentTurn::is_whole));
  }
  bool is_cut() const { return num_answered() < num_turns_wanted; }
};

struct AgentRun {
  AgentSizes sizes;
  int num_sessions = 1;
  bool has_prefix_cache = true;  // else every request is of a tenant of its own
  std::string salt;              // of the run: nothing is shared with another
  Clock::time_point until;       // requests that run then are cancelled
};
Result<AgentReport> RunAgents(engine::Engine& engine, const AgentRun& agents);

// All numbers of sessions. Each run has an equal share of what is left of the run's time.
Result<void> MeasureAgents(Run& run, std::shared_ptr<const model::ModelFile> file,
                           const std::string& dtype);

}  // namespace kvgate::cli::gpu_bench
