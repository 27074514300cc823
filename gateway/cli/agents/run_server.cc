#include "gateway/cli/agents/run_server.h"

#include <fmt/format.h>

#include <chrono>
#include <system_error>
#include <utility>

#include "gateway/cli/agents/relay.h"
#include "gateway/cli/server/http_client.h"
#include "gateway/config/config.h"
#include "store/file/directory_lock.h"

namespace kvgate::cli::agents {
namespace {

constexpr std::chrono::milliseconds kPoll{50};
// For a server that has taken the directory and is not yet listening, or one that still ends.
constexpr int kHeldPolls = 600;
constexpr int kReadyPolls = 12'000;  // ten minutes, while a model loads

Result<int> DialUrl(const std::string& url) {
  KVGATE_TRY(const config::Url parsed, config::ParseUrl(url));
  return ConnectTcp(parsed.host, parsed.port);
}

Result<void> AwaitReady(const store::ServerAddress& address) {
  for (int i = 0; i < kReadyPolls; ++i) {
    KVGATE_TRY(const server::HttpReply reply,
               server::FetchHttp(server::RequestTo(address, {.url = "/ready"})));
    if (reply.status != 503) return {};
    std::this_thread::sleep_for(kPoll);
  }
  return MakeError(ErrorCode::kUnavailable, "cli",
                   fmt::format("{} does not become ready", address.url));
}

}  // namespace

Result<std::unique_ptr<RunServer>> RunServer::Open(Options options) {
  std::unique_ptr<RunServer> server(new RunServer(std::move(options)));
  try {
    server->keeper_ = std::thread([&self = *server] { self.Keep(); });
  } catch (const std::system_error& failure) {
    return MakeError(ErrorCode::kOverloaded, "cli",
                     fmt::format("the system refuses a thread: {}", failure.what()));
  }
  return server;
}

Result<void> RunServer::Await() {
  const std::lock_guard lock(mutex_);
  return Find();
}

RunServer::~RunServer() {
  own_.reset();
  {
    const std::lock_guard lock(keeper_mutex_);
    stopping_ = true;
  }
  asked_.notify_all();
  if (keeper_.joinable()) keeper_.join();
}

void RunServer::Keep() {
  std::unique_lock lock(keeper_mutex_);
  while (true) {
    asked_.wait(lock, [this] { return is_asked_ || stopping_; });
    if (stopping_) return;
    started_ = OwnServer::Start({.arguments = options_.serve_arguments,
                                 .log_file = options_.directory / "run.log",
                                 .is_quiet = options_.is_quiet});
    is_asked_ = false;
    asked_.notify_all();
  }
}

// REQUIRES: mutex_ is held.
Result<void> RunServer::StartOwn() {
  own_.reset();
  std::unique_lock lock(keeper_mutex_);
  is_asked_ = true;
  asked_.notify_all();
  asked_.wait(lock, [this] { return !is_asked_; });
  KVGATE_TRY(own_, std::move(started_));
  return {};
}

// REQUIRES: mutex_ is held.
Result<void> RunServer::Find() {
  const bool is_named = !options_.target.url.empty();
  address_ = server::FindServer(options_.target, options_.directory);
  Result<void> started;
  if (address_.url.empty() && !store::file::DirectoryLock::IsHeld(options_.directory)) {
    started = StartOwn();
  }
  // Whoever was faster with the directory publishes its address once it listens.
  for (int i = 0; i < kHeldPolls && address_.url.empty(); ++i) {
    address_ = server::FindServer(options_.target, options_.directory);
    if (!address_.url.empty()) break;
    if (!store::file::DirectoryLock::IsHeld(options_.directory)) {
      if (!started) return started.error();
      started = StartOwn();
    }
    std::this_thread::sleep_for(kPoll);
  }
  if (address_.url.empty()) {
    return MakeError(ErrorCode::kUnavailable, "cli",
                     fmt::format("{} is held by a process that serves no address; name another "
                                 "with --data-dir",
                                 options_.directory.string()));
  }
  if (address_.url.starts_with("https:")) {
    return MakeError(
        ErrorCode::kUnsupported, "cli",
        fmt::format("{} speaks TLS with a certificate that agents do not trust; name another "
                    "server with --url, or another directory with --data-dir",
                    address_.url));
  }
  // A server that is named may be another program's, without /ready.
  return is_named ? Result<void>() : AwaitReady(address_);
}

store::ServerAddress RunServer::address() const {
  const std::lock_guard lock(mutex_);
  return address_;
}

bool RunServer::is_own() const {
  const std::lock_guard lock(mutex_);
  return own_ != nullptr;
}

Result<int> RunServer::Dial() {
  const std::lock_guard lock(mutex_);
  Result<int> dialled = DialUrl(address_.url);
  if (dialled || !options_.target.url.empty()) return dialled;
  KVGATE_TRY_VOID(Find());
  return DialUrl(address_.url);
}

}  // namespace kvgate::cli::agents
