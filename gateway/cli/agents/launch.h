// Launch: what an agent is started with so that it talks to a server: its arguments, its
// environment and files that are generated for this run alone. Pure but for the reading of the
// user's files that are copied.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "gateway/cli/agents/agent_table.h"

namespace kvgate::cli::agents {

struct LaunchArgs {
  std::string origin = {};   // the server's address, without a path
  std::string overlay = {};  // the folder in which its files will be
  // The gateway's key, which takes the place of the user's credentials; empty: these go on.
  std::string key = {};
  std::string model = {};  // the local model's name; empty: the model that the agent chooses
};

struct Launch {
  std::vector<std::string> arguments = {};                          // in front of the user's own
  std::vector<std::pair<std::string, std::string>> variables = {};  // set for the child
  std::vector<std::string> removed = {};                        // variables that it does not get
  std::vector<std::pair<std::string, std::string>> files = {};  // name in the overlay, content
};

// Fails with kInvalidArgument if a file of the user's cannot be edited.
Result<Launch> PlanLaunch(const Agent& agent, const LaunchArgs& args);

// "~/x" in the user's home; any other path as it is.
std::filesystem::path InHome(std::string_view path);
// The content of a file; empty if it is not there. Fails with kIo if it cannot be read.
Result<std::string> ReadIfThere(const std::filesystem::path& path);

}  // namespace kvgate::cli::agents
