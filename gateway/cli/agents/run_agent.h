// What `kvgate run` does: a server, a port of the run's own, an agent that talks to it, and what
// that cost.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "gateway/cli/server/server_target.h"

namespace kvgate::cli::agents {

struct RunArgs {
  std::vector<std::string> command = {};  // the agent and its arguments; not empty
  server::TargetFlags target = {};
  std::filesystem::path directory = {};           // of the data
  std::vector<std::string> serve_arguments = {};  // for a server that is started for the run
  bool has_engine_flags = false;                  // some of these are not its directory's
  bool is_local = false;                          // the local model answers
  bool is_quiet = false;                          // nothing is printed on stderr
};

// Returns the agent's exit status, 127 if there is no such command. Fails if there is no server, or
// the agent cannot be started.
Result<int> RunAgent(const RunArgs& args);

}  // namespace kvgate::cli::agents
