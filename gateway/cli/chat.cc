// `kvgate chat`: a conversation at the terminal, or one question through a pipe.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/options.h"
#include "gateway/cli/server/conversation.h"
#include "gateway/cli/server/server_target.h"
#include "gateway/metrics/registry.h"
#include "gateway/runtime/data_tier.h"
#include "gateway/runtime/runtime.h"
#include "store/rocks_data_directory.h"

namespace kvgate::cli {
namespace {

// The exit status that a shell reports for a program killed by SIGINT.
constexpr int kInterrupted = 130;

struct ChatFlags {
  ConfigFlags config;
  server::TargetFlags target;
  std::string system;
  server::AnswerOptions answer;
};

// Ctrl-C stops the answer and not the program. A signal handler can only reach a global.
std::atomic<bool> g_stop{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void InstallInterrupt() {
  struct sigaction action {};
  action.sa_handler = [](int) { g_stop.store(true); };
  // Without SA_RESTART, so that waiting for a line ends too.
  sigaction(SIGINT, &action, nullptr);
}

// Reads a line without its line break; nullopt at the end of the input. Ctrl-C gives an empty line.
std::optional<std::string> ReadLine() {
  char* line = nullptr;
  size_t capacity = 0;
  const ssize_t size = ::getline(&line, &capacity, stdin);
  const std::unique_ptr<char, decltype(&std::free)> owned(line, &std::free);
  if (size < 0) {
    const bool interrupted = std::ferror(stdin) != 0 && g_stop.load();
    std::clearerr(stdin);
    return interrupted ? std::optional<std::string>("") : std::nullopt;
  }
  std::string text(line, static_cast<size_t>(size));
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return text;
}

class Talk {
 public:
  // `is_kept`: the server keeps what was said, so that only what is new goes to it.
  Talk(server::Answerer& answerer, const std::string& system, bool is_kept)
      : answerer_(answerer), is_kept_(is_kept) {
    if (!system.empty()) messages_.push_back({.role = "system", .content = system});
  }

  // Adds the turn and its answer, even if the answer was stopped half-way.
  Result<server::AnswerCost> Say(std::string text) {
    messages_.push_back({.role = "user", .content = std::move(text)});
    std::string answer;
    g_stop.store(false);
    const auto on_text = [&answer](std::string_view piece) {
      answer += piece;
      fmt::print("{}", piece);
      std::fflush(stdout);
    };
    const Result<server::AnswerCost> done = answerer_.Answer(messages_, on_text, g_stop);
    fmt::print("\n");
    if (!done || is_kept_) messages_.pop_back();
    if (!done) return done.error();
    if (is_kept_) return *done;
    messages_.push_back({.role = "assistant", .content = std::move(answer)});
    return *done;
  }

 private:
  server::Answerer& answerer_;
  const bool is_kept_;
  std::vector<dialect::form::Message> messages_;
};

Result<int> Converse(Talk talk) {
  if (::isatty(STDIN_FILENO) == 0) {
    const std::string text((std::istreambuf_iterator<char>(std::cin)),
                           std::istreambuf_iterator<char>());
    if (g_stop.load()) return kInterrupted;
    if (text.empty()) {
      return MakeError(ErrorCode::kInvalidArgument, "cli", "there is nothing to say on the input");
    }
    KVGATE_TRY_VOID(talk.Say(text));
    return g_stop.load() ? kInterrupted : 0;
  }
  fmt::print("Ctrl-C stops an answer, Ctrl-D ends.\n");
  while (true) {
    g_stop.store(false);
    fmt::print("> ");
    std::fflush(stdout);
    const std::optional<std::string> line = ReadLine();
    if (!line) break;
    if (line->empty()) {
      if (g_stop.load()) fmt::print("\n");
      continue;
    }
    const Result<server::AnswerCost> said = talk.Say(*line);
    if (!said) {
      fmt::print(stderr, "kvgate: {}\n", said.error().detail);
    } else if (const std::string cost = server::CostLine(*said); !cost.empty()) {
      fmt::print("[{}]\n", cost);
    }
  }
  fmt::print("\n");
  return 0;
}

// Uses the server named; else the one that holds the data directory, unless a model is named; else
// an engine in this process.
Result<int> Chat(const ChatFlags& flags) {
  KVGATE_TRY(config::Config config, ReadConfig(flags.config));
  // The engine's start-up log would disturb the conversation; it is hidden unless a level is set.
  if (config.server.log_level == config::ServerConfig().log_level) {
    ConfigureLog({.level = LogLevel::kWarning});
  }
  InstallInterrupt();
  store::ServerAddress server;
  if (!flags.target.url.empty() || config.engine.model.empty()) {
    server = server::FindServer(flags.target, runtime::DataDirOf(config));
  }
  if (!server.url.empty()) {
    KVGATE_TRY(const std::string authorization, server::AuthorizationOf(flags.target));
    const auto answerer = server::MakeServerAnswerer({server, authorization}, flags.answer);
    return Converse(Talk(*answerer, flags.system, !flags.answer.session.empty()));
  }
  if (!flags.answer.session.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "cli",
                     "a session is kept by a server: start `kvgate serve`, or name one with --url");
  }
  metrics::Registry registry;
  KVGATE_TRY(const auto gateway, runtime::Runtime::Open({.config = std::move(config),
                                                         .registry = registry,
                                                         .takes_requests = false,
                                                         .needs_engine = true}));
  const auto answerer = server::MakeLocalAnswerer(*gateway->provider(), flags.answer);
  return Converse(Talk(*answerer, flags.system, false));
}

}  // namespace

void AddChat(CLI::App& app, Run& chosen) {
  auto flags = std::make_shared<ChatFlags>();
  CLI::App* command =
      app.add_subcommand("chat", "Talk to a server or, with --model, to a model in this process");
  AddEngineFlags(*command, flags->config);
  server::AddTargetFlags(*command, flags->target);
  command->add_option("--system", flags->system, "system message");
  command->add_option("--name", flags->answer.model, "model to ask the server for")
      ->capture_default_str();
  command->add_option("--session", flags->answer.session,
                      "the session that the server keeps this conversation in");
  command->add_option("--max-tokens", flags->answer.max_tokens)->capture_default_str();
  command->add_option("--temperature", flags->answer.temperature)->capture_default_str();
  command->callback([flags, &chosen] { chosen = [flags] { return Chat(*flags); }; });
}

}  // namespace kvgate::cli
