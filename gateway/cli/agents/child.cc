#include "gateway/cli/agents/child.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

namespace kvgate::cli::agents {
namespace {

constexpr int kSignalled = 128;

bool IsProgram(const std::string& path) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// A text without a first line that names its interpreter is a script of the shell's, as for execvp.
bool IsShellScript(const std::string& path) {
  constexpr std::string_view kMagic =
      "\x7f"
      "ELF";
  std::string head(kMagic.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  return file.read(head.data(), static_cast<std::streamsize>(head.size())) && head != kMagic;
}

// Returns 0 or an errno.
int Spawn(const ChildArgs& args, const SignalGuard& signals, pid_t& child) {
  std::vector<std::string> arguments = args.arguments;
  std::vector<std::string> environment = ChangedEnvironment(args);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setsigmask(&attributes, &signals.before());
  const int code = posix_spawn(&child, args.program.c_str(), nullptr, &attributes,
                               Pointers(arguments).data(), Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  return code;
}

Result<pid_t> Start(const ChildArgs& args, const SignalGuard& signals) {
  pid_t child = 0;
  int code = Spawn(args, signals, child);
  if (code == ENOEXEC && IsShellScript(args.program)) {
    ChildArgs shell = args;
    shell.program = "/bin/sh";
    shell.arguments.at(0) = args.program;
    shell.arguments.insert(shell.arguments.begin(), "sh");
    code = Spawn(shell, signals, child);
  }
  if (code == 0) return child;
  return MakeError(ErrorCode::kUnavailable, "cli",
                   fmt::format("{} cannot be started: {}", args.program, std::strerror(code)));
}

}  // namespace

std::string FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) return IsProgram(name) ? name : std::string();
  const char* const path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path;
  while (true) {
    const size_t colon = rest.find(':');
    const std::string_view folder = rest.substr(0, colon);
    const std::string file = fmt::format("{}/{}", folder.empty() ? "." : folder, name);
    if (IsProgram(file)) return file;
    if (colon == std::string_view::npos) return {};
    rest.remove_prefix(colon + 1);
  }
}

SignalGuard::SignalGuard() {
  sigemptyset(&waited_);
  for (const int signal : {SIGCHLD, SIGTERM, SIGHUP, SIGINT, SIGQUIT}) sigaddset(&waited_, signal);
  pthread_sigmask(SIG_BLOCK, &waited_, &before_);
}

void SignalGuard::Interruptible(const std::function<void()>& work) const {
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  work();
  pthread_sigmask(SIG_BLOCK, &waited_, nullptr);
}

SignalGuard::~SignalGuard() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::vector<std::string> ChangedEnvironment(const ChildArgs& args) {
  const auto is_changed = [&](std::string_view name) {
    return std::find(args.removed.begin(), args.removed.end(), name) != args.removed.end() ||
           std::any_of(args.variables.begin(), args.variables.end(),
                       [&](const auto& variable) { return variable.first == name; });
  };
  std::vector<std::string> environment;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view entry(*at);
    if (!is_changed(entry.substr(0, entry.find('=')))) environment.emplace_back(entry);
  }
  for (const auto& [name, value] : args.variables) environment.push_back(name + '=' + value);
  return environment;
}

Result<int> RunChild(const ChildArgs& args, const SignalGuard& signals) {
  KVGATE_TRY(const pid_t child, Start(args, signals));
  while (true) {
    int status = 0;
    const pid_t found = waitpid(child, &status, WNOHANG | WUNTRACED);
    if (found == child && WIFEXITED(status)) return WEXITSTATUS(status);
    if (found == child && WIFSIGNALED(status)) return kSignalled + WTERMSIG(status);
    if (found == child && WIFSTOPPED(status)) {
      raise(SIGSTOP);  // until the shell goes on with this job
      kill(child, SIGCONT);
      continue;
    }
    if (found < 0 && errno != EINTR) {
      return MakeError(ErrorCode::kInternal, "cli",
                       fmt::format("{} was lost: {}", args.program, std::strerror(errno)));
    }
    siginfo_t info{};
    const int signal = sigwaitinfo(&signals.waited(), &info);
    const bool is_terminals = info.si_code == SI_KERNEL && (signal == SIGINT || signal == SIGQUIT);
    if (signal > 0 && signal != SIGCHLD && !is_terminals) kill(child, signal);
  }
}

}  // namespace kvgate::cli::agents
