// `kvgate run`, `kvgate setup` and `kvgate init`: flags only; the work is in agents/ and init/.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gateway/cli/agents/run_agent.h"
#include "gateway/cli/agents/setup_command.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/init/init_command.h"
#include "gateway/cli/options.h"
#include "gateway/cli/server/server_target.h"
#include "gateway/runtime/data_tier.h"

namespace kvgate::cli {
namespace {

struct RunFlags {
  ConfigFlags config;
  agents::RunArgs run;
};

// The same settings for `kvgate serve`.
std::vector<std::string> ServeArguments(const ConfigFlags& flags) {
  std::vector<std::string> arguments;
  if (!flags.file.empty()) arguments.push_back("--config=" + flags.file);
  for (const ConfigFlags::Setting& setting : flags.settings) {
    arguments.push_back("--set=" + setting.table + '.' + setting.key + '=' + setting.value);
  }
  return arguments;
}

Result<int> RunCommand(const RunFlags& flags) {
  KVGATE_TRY(const config::Config config, ReadConfig(flags.config));
  agents::RunArgs args = flags.run;
  args.directory = runtime::DataDirOf(config);
  args.serve_arguments = ServeArguments(flags.config);
  args.has_engine_flags =
      !flags.config.file.empty() ||
      std::any_of(flags.config.settings.begin(), flags.config.settings.end(),
                  [](const auto& setting) { return setting.key != "data_dir"; });
  return agents::RunAgent(args);
}

struct SetupFlags {
  ConfigFlags config;
  agents::SetupArgs setup;
  bool list = false;
};

Result<int> SetupCommand(const SetupFlags& flags) {
  if (flags.list) return agents::ListAgents();
  agents::SetupArgs args = flags.setup;
  if (args.agent.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "cli",
                     "which agent? `kvgate setup --list` shows those that are known");
  }
  if (args.origin.empty()) {
    KVGATE_TRY(const config::Config config, ReadConfig(flags.config));
    args.origin = server::FindServer({}, runtime::DataDirOf(config)).url;
    if (args.origin.empty()) args.origin = "http://" + config.server.listen;
  }
  return agents::SetUpAgent(args);
}

}  // namespace

void AddSetup(CLI::App& app, Run& chosen) {
  const auto flags = std::make_shared<SetupFlags>();
  CLI::App* const command = app.add_subcommand(
      "setup", "Write kvgate's address into an agent's own configuration, or take it back");
  command->footer(
      "It shows what would change, asks, and keeps what stood there beside the file. To run an\n"
      "agent through kvgate without that: kvgate run -- AGENT");
  command->add_option("agent", flags->setup.agent, "claude, codex, opencode ...; see --list");
  command->add_option("--url", flags->setup.origin,
                      "the address that is written (default: that of the running server, else of "
                      "the configuration)");
  command->add_flag("-y,--yes", flags->setup.yes, "write without asking");
  command->add_flag("--undo", flags->setup.undo, "put back what stood there");
  command->add_flag("--list", flags->list, "the known agents, and which are set up");
  AddDataDirFlag(*command, flags->config);
  command->add_option("--config", flags->config.file, "the server's configuration");
  command->callback([flags, &chosen] { chosen = [flags] { return SetupCommand(*flags); }; });
}

void AddInit(CLI::App& app, Run& chosen) {
  struct InitFlags {
    std::vector<std::string> providers;
    init::InitArgs args;
  };
  const auto flags = std::make_shared<InitFlags>();
  CLI::App* const command =
      app.add_subcommand("init", "Write a first kvgate.toml: three questions, or flags");
  command->footer(
      "kvgate init --provider anthropic,openai --agent claude --disk 20GiB\n\n"
      "Callers' own credentials go on to the providers. A key of the environment becomes the\n"
      "gateway's only with --lend-env-keys: any program that reaches the gateway spends it.");
  command
      ->add_option("--provider", flags->providers, "anthropic, openai ... (with commas), or none")
      ->allow_extra_args(false);
  command->add_option("--agent", flags->args.agent, "claude, codex, opencode ..., or none");
  command->add_option("--disk", flags->args.disk, "disk for KV, like 20GiB, or none");
  command->add_option("--out", flags->args.out, "the file that is written (default: kvgate.toml)");
  command->add_flag("--lend-env-keys", flags->args.lend_keys,
                    "the gateway pays with ANTHROPIC_API_KEY, OPENAI_API_KEY where they are set");
  command->add_flag("-y,--yes", flags->args.yes, "ask nothing: what is not said is as proposed");
  command->add_flag("--force", flags->args.force, "replace a file that is there");
  command->callback([flags, &chosen] {
    chosen = [flags] {
      flags->args.providers = fmt::format("{}", fmt::join(flags->providers, ","));
      return init::Init(flags->args);
    };
  });
}

void AddRun(CLI::App& app, Run& chosen) {
  const auto flags = std::make_shared<RunFlags>();
  CLI::App* const command = app.add_subcommand(
      "run", "Run an agent through kvgate, and say what its requests used and cost");
  command->footer(
      "kvgate run -- claude\n"
      "kvgate run --local -- codex exec \"say hello\"\n\n"
      "The agent talks to the server that holds the data directory, or to one that is started for\n"
      "it with these options. Only this one process of it does: nothing is written to its\n"
      "settings. Its own credentials go on to the provider.");
  command->add_flag("--local", flags->run.is_local, "the local model answers, not a provider");
  command->add_flag("-q,--quiet", flags->run.is_quiet, "print nothing at the end");
  server::AddTargetFlags(*command, flags->run.target);
  AddEngineFlags(*command, flags->config);
  command->add_option("command", flags->run.command, "the agent and its arguments, behind a --")
      ->required();
  command->callback([flags, &chosen] { chosen = [flags] { return RunCommand(*flags); }; });
}

}  // namespace kvgate::cli
