#include "gateway/cli/agents/own_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

namespace kvgate::cli::agents {
namespace {

constexpr std::string_view kReadyLine = "listening on ";
constexpr int kQuietStartMs = 2000;
constexpr timespec kStopPoll = {.tv_sec = 0, .tv_nsec = 20'000'000};

Error Failed(std::string_view what) {
  return MakeError(ErrorCode::kUnavailable, "cli",
                   fmt::format("{}: {}", what, std::strerror(errno)));
}

std::string LastLine(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = std::move(line);
  }
  return last;
}

// What runs between fork and exec: only calls that are safe beside other threads.
[[noreturn]] void BecomeServer(char* const* arguments, int output, int log, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  const int input = open("/dev/null", O_RDONLY);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv("/proc/self/exe", arguments);
  _exit(127);
}

// Waits for the line that says that it listens. Returns false if the output ends before.
bool AwaitReady(int output, bool is_quiet) {
  std::string text;
  bool has_told = is_quiet;
  while (text.find(kReadyLine) == std::string::npos || !text.ends_with('\n')) {
    pollfd polled = {.fd = output, .events = POLLIN, .revents = 0};
    const int ready = poll(&polled, 1, has_told ? -1 : kQuietStartMs);
    if (ready < 0 && errno != EINTR) return false;
    if (ready == 0) {
      fmt::print(stderr, "kvgate: starting a server for this run ...\n");
      has_told = true;
    }
    if (ready <= 0) continue;
    std::array<char, 512> piece;
    const ssize_t size = read(output, piece.data(), piece.size());
    if (size == 0) return false;
    if (size > 0) text.append(piece.data(), static_cast<size_t>(size));
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<OwnServer>> OwnServer::Start(const Options& options) {
  std::vector<std::string> words = {"kvgate", "serve", "--listen", "127.0.0.1:0"};
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::error_code ignored;
  const std::filesystem::path folder = options.log_file.parent_path();
  if (!std::filesystem::exists(folder, ignored)) {
    std::filesystem::create_directories(folder, ignored);
    chmod(folder.c_str(), 0700);
  }
  const int log = open(options.log_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (log < 0) return Failed(options.log_file.string());
  std::array<int, 2> output{};
  if (pipe2(output.data(), O_CLOEXEC) != 0) {
    close(log);
    return Failed("a pipe");
  }
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process == 0) BecomeServer(arguments.data(), output[1], log, parent);
  close(log);
  close(output[1]);
  if (process < 0) {
    close(output[0]);
    return Failed("no process can be started");
  }
  std::unique_ptr<OwnServer> server(new OwnServer(process, output[0]));
  if (AwaitReady(output[0], options.is_quiet)) return server;
  server->Stop();
  return MakeError(ErrorCode::kUnavailable, "cli",
                   fmt::format("no server could be started: {} ({})", LastLine(options.log_file),
                               options.log_file.string()));
}

OwnServer::~OwnServer() {
  Stop();
  close(output_);
}

void OwnServer::Stop() {
  if (process_ <= 0) return;
  kill(process_, SIGTERM);
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  while (waitpid(process_, nullptr, WNOHANG) == 0) {
    // A second signal lets it wait for no request any longer.
    if (sigtimedwait(&ends, nullptr, &kStopPoll) > 0) kill(process_, SIGTERM);
  }
  process_ = 0;
}

}  // namespace kvgate::cli::agents
