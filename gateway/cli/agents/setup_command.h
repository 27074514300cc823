// What `kvgate setup` asks and prints around AgentSetup.
#pragma once

#include <string>

#include "base/result.h"

namespace kvgate::cli::agents {

struct SetupArgs {
  std::string agent = {};
  std::string origin = {};  // the address that is written, like http://127.0.0.1:8080
  bool undo = false;
  bool yes = false;  // nobody is asked
};

// Shows what would change in the agent's own configuration file, asks, and writes it; or takes it
// back. Returns 0, also if there is nothing to do, and 1 if the answer was no. Fails with
// kInvalidArgument for an unknown agent or an address that is none, and as AgentSetup does.
Result<int> SetUpAgent(const SetupArgs& args);

// Prints the known agents: whether each is on this machine, and whether it is set up.
Result<int> ListAgents();

}  // namespace kvgate::cli::agents
