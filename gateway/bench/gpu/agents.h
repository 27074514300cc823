// Agents: concurrent sessions that share a long prefix and grow turn by turn, with and without the
// prefix cache.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "gateway/bench/gpu/run.h"

namespace kvgate::bench::gpu {

struct AgentTurn {
  int session = 0;
  int turn = 0;
  double ttft_ms = 0;
  bool is_whole = true;  // false: it was cut after its first token
  engine::RequestStats stats;
};

struct AgentReport {
  std::vector<AgentTurn> turns;  // turns that had a first token
  double seconds = 0;            // until the last answer, or until the cut
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
  bool has_prefix_cache = true;  // false: every request has its own salt
  std::string salt;              // this run's; it shares no prefix with other runs
  Clock::time_point until;       // requests still running then are cancelled
};
Result<AgentReport> RunAgents(engine::Engine& engine, const AgentRun& agents);

// Measures every number of sessions. Each run gets an equal share of the remaining time.
Result<void> MeasureAgents(Run& run, std::shared_ptr<const modelfile::ModelFile> file,
                           const std::string& dtype);

}  // namespace kvgate::bench::gpu
