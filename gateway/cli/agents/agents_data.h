// The text of agents.json, which is built into the program.
#pragma once

namespace kvgate::cli::agents {

extern const char* const kAgentsJson;

}  // namespace kvgate::cli::agents
