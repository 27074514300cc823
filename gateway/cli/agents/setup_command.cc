#include "gateway/cli/agents/setup_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string_view>
#include <vector>

#include "gateway/cli/agents/agent_table.h"
#include "gateway/cli/agents/child.h"
#include "gateway/cli/agents/config_edit.h"
#include "gateway/cli/agents/setup.h"
#include "gateway/config/config.h"
#include "gateway/config/nearest.h"

namespace kvgate::cli::agents {
namespace {

Result<const Agent*> KnownAgent(const std::string& name) {
  if (const Agent* const agent = FindAgent(name)) return agent;
  std::vector<std::string_view> names;
  for (const Agent& agent : KnownAgents()) names.push_back(agent.name);
  return MakeError(ErrorCode::kInvalidArgument, "cli",
                   fmt::format("no agent '{}' is known{}; there are {}", name,
                               config::DidYouMean(name, names), fmt::join(names, ", ")));
}

std::string FoundProgram(const Agent& agent) {
  for (const std::string& command : agent.commands) {
    if (std::string path = FindProgram(command); !path.empty()) return path;
  }
  return {};
}

// Without a terminal nobody can be asked.
Result<bool> Ask(std::string_view question) {
  if (isatty(STDIN_FILENO) == 0) {
    return MakeError(ErrorCode::kInvalidArgument, "cli",
                     "nothing was written: say --yes where nobody can be asked");
  }
  fmt::print("{} [y/N] ", question);
  std::fflush(stdout);
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

Result<int> Write(const Agent& agent, const AgentSetup& setup, const SetupArgs& args) {
  KVGATE_TRY(const config::Url url, config::ParseUrl(args.origin));
  if (!url.path.empty()) {
    return MakeError(
        ErrorCode::kInvalidArgument, "cli",
        fmt::format("--url is a server's address without a path, not {}", args.origin));
  }
  std::string origin = args.origin;
  while (origin.ends_with('/')) origin.pop_back();
  KVGATE_TRY(const AgentSetup::Change change, setup.Plan(origin));
  if (change.before == change.after) {
    fmt::print("{} says so already\n", setup.file().string());
    return 0;
  }
  fmt::print("{}:\n", setup.file().string());
  for (const std::string& line : DiffLines(change.before, change.after)) fmt::print("{}\n", line);
  if (!args.yes) {
    KVGATE_TRY(const bool is_wanted, Ask("Write this?"));
    if (!is_wanted) return 1;
  }
  KVGATE_TRY_VOID(setup.Write(origin, change));
  fmt::print("{} now talks to {}; `kvgate setup {} --undo` takes it back\n", agent.title, origin,
             agent.name);
  return 0;
}

}  // namespace

Result<int> SetUpAgent(const SetupArgs& args) {
  KVGATE_TRY(const Agent* const agent, KnownAgent(args.agent));
  KVGATE_TRY(const AgentSetup setup, AgentSetup::Open(*agent));
  if (!args.undo) return Write(*agent, setup, args);
  KVGATE_TRY_VOID(setup.Undo());
  fmt::print("{} is as it was\n", setup.file().string());
  return 0;
}

Result<int> ListAgents() {
  fmt::print("{:<10} {:<28} {}\n", "agent", "set up for", "on this machine");
  for (const Agent& agent : KnownAgents()) {
    std::string written = "only with `kvgate run`";
    if (agent.setup) {
      const Result<AgentSetup> setup = AgentSetup::Open(agent);
      written = setup ? setup->written_origin() : "its file is not this user's";
    }
    const std::string program = FoundProgram(agent);
    fmt::print("{:<10} {:<28} {}\n", agent.name, written.empty() ? "-" : written,
               program.empty() ? fmt::format("no; {}", agent.install) : program);
  }
  return 0;
}

}  // namespace kvgate::cli::agents
