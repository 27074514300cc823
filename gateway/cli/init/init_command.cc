#include "gateway/cli/init/init_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string_view>
#include <vector>

#include "gateway/cli/agents/agent_table.h"
#include "gateway/cli/agents/child.h"
#include "gateway/cli/init/first_config.h"
#include "gateway/cli/init/new_file.h"
#include "gateway/cli/init/provider_table.h"
#include "gateway/cli/init/questions.h"

namespace kvgate::cli::init {
namespace {

constexpr std::string_view kProvidersDefault = "anthropic,openai";  // those of most agents
constexpr std::string_view kDiskDefault = "16GiB";

// One thing to be known: the flag that says it, or the question.
struct Item {
  std::string* value;
  std::string_view flag;
  std::string question;
  std::string otherwise;
  Questions::Check check;
};

template <typename T>
Questions::Check CheckedBy(Result<T> (*parse)(std::string_view)) {
  return [parse](const std::string& text) -> Result<void> {
    KVGATE_TRY_VOID(parse(text));
    return {};
  };
}

bool IsOnThisMachine(const agents::Agent& agent) {
  for (const std::string& command : agent.commands) {
    if (!agents::FindProgram(command).empty()) return true;
  }
  return false;
}

std::vector<Item> ItemsOf(InitArgs& args) {
  std::vector<std::string_view> providers;
  for (const Provider& provider : KnownProviders()) providers.push_back(provider.name);
  std::vector<std::string_view> names;
  std::string found = "none";
  for (const agents::Agent& agent : agents::KnownAgents()) {
    names.push_back(agent.name);
    if (found == "none" && IsOnThisMachine(agent)) found = agent.name;
  }
  return {{.value = &args.providers,
           .flag = "--provider",
           .question = fmt::format("Which providers? {}, several with a comma, or none",
                                   fmt::join(providers, ", ")),
           .otherwise = std::string(kProvidersDefault),
           .check = CheckedBy(ParseProviders)},
          {.value = &args.agent,
           .flag = "--agent",
           .question = fmt::format("Which agent? {}, or none", fmt::join(names, ", ")),
           .otherwise = found,
           .check = CheckedBy(ParseAgent)},
          {.value = &args.disk,
           .flag = "--disk",
           .question = "How much disk for the local model's KV? A size, or none",
           .otherwise = std::string(kDiskDefault),
           .check = CheckedBy(ParseDisk)}};
}

// Asks for what no flag has said, or takes what is likely.
Result<void> Complete(InitArgs& args) {
  const std::vector<Item> items = ItemsOf(args);
  std::vector<std::string> missing;
  for (const Item& item : items) {
    if (item.value->empty()) {
      missing.push_back(fmt::format("{} {}", item.flag, item.otherwise));
    } else {
      KVGATE_TRY_VOID(item.check(*item.value));
    }
  }
  if (!args.yes && !missing.empty() && isatty(STDIN_FILENO) == 0) {
    return MakeError(ErrorCode::kInvalidArgument, "cli",
                     fmt::format("nobody can be asked here: say {}, or --yes for just that",
                                 fmt::join(missing, " ")));
  }
  Questions questions(std::cin, std::cout);
  for (const Item& item : items) {
    if (!item.value->empty()) continue;
    *item.value = item.otherwise;
    if (args.yes) continue;
    KVGATE_TRY(*item.value, questions.Ask(item.question, item.otherwise, item.check));
  }
  return {};
}

bool IsSet(const Provider& provider) {
  const char* const value = std::getenv(std::string(provider.key_env).c_str());
  return value != nullptr && *value != '\0';
}

Result<void> LendKeys(FirstConfig& first) {
  std::vector<std::string_view> names;
  for (const Provider* const provider : first.providers) {
    names.push_back(provider->key_env);
    if (IsSet(*provider)) first.lent_keys.push_back(provider);
  }
  if (!first.lent_keys.empty()) return {};
  return MakeError(ErrorCode::kInvalidArgument, "cli",
                   fmt::format("--lend-env-keys: there is no key here{}{}",
                               names.empty() ? "" : "; not set: ", fmt::join(names, ", ")));
}

// A path as a shell reads it.
std::string Quoted(const std::string& path) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+,:@%=";
  if (path.find_first_not_of(kPlain) == std::string::npos) return path;
  std::string quoted = "'";
  for (const char c : path) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

void PrintKeys(const FirstConfig& first) {
  for (const Provider* const provider : first.providers) {
    if (first.lends(*provider)) {
      fmt::print("{} is lent: any program that reaches the gateway spends it.\n",
                 provider->key_env);
    } else if (IsSet(*provider)) {
      fmt::print("{} is not the gateway's: each caller sends its own credential.\n",
                 provider->key_env);
    }
  }
}

void PrintNext(const FirstConfig& first, const std::string& file) {
  fmt::print("\nNext:\n  kvgate serve --config {}\n", Quoted(file));
  if (first.agent == nullptr) {
    fmt::print(
        "and point a client at it: http://127.0.0.1:8080 for Anthropic's and Google's SDKs,\n"
        "http://127.0.0.1:8080/v1 for OpenAI's; or, in another terminal: kvgate run -- COMMAND\n");
    return;
  }
  const agents::Agent& agent = *first.agent;
  fmt::print("and, in another terminal:\n  kvgate run -- {}\n", agent.commands.front());
  if (agent.setup) {
    fmt::print("or, to let {} always use it:\n  kvgate setup {} --config {}\n", agent.title,
               agent.name, Quoted(file));
  }
  if (!IsOnThisMachine(agent)) {
    fmt::print("{} is not on this machine yet: {}\n", agent.title, agent.install);
  }
}

}  // namespace

Result<int> Init(const InitArgs& given) {
  const IfThere if_there = given.force ? IfThere::kReplace : IfThere::kRefuse;
  KVGATE_TRY_VOID(CheckNewFile(given.out, if_there));
  InitArgs args = given;
  KVGATE_TRY_VOID(Complete(args));
  FirstConfig first;
  KVGATE_TRY(first.providers, ParseProviders(args.providers));
  KVGATE_TRY(first.agent, ParseAgent(args.agent));
  KVGATE_TRY(first.disk, ParseDisk(args.disk));
  if (args.lend_keys) {
    KVGATE_TRY_VOID(LendKeys(first));
  }
  KVGATE_TRY_VOID(WriteNewFile(args.out, TextOf(first), if_there));
  fmt::print("{} is written.\n", args.out.string());
  PrintKeys(first);
  PrintNext(first, args.out.string());
  return 0;
}

}  // namespace kvgate::cli::init
