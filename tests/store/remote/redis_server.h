// RedisServer: Debian's redis-server as a process of one test, on a port of its own.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store/remote/resp_client.h"
#include "tests/base/temp_folder.h"
#include "tests/store/remote/deadlines.h"
#include "tests/wait_until.h"

namespace kvgate::store::remote {

inline constexpr const char* kRedisProgram = "/usr/bin/redis-server";

// A test that needs the server begins with this.
#define KVGATE_SKIP_WITHOUT_REDIS()                                           \
  if (::access(::kvgate::store::remote::kRedisProgram, X_OK) != 0) {          \
    GTEST_SKIP() << "there is no " << ::kvgate::store::remote::kRedisProgram; \
  }                                                                           \
  static_assert(true, "a semicolon follows")

// A socket that is bound to 127.0.0.1, and its port.
inline std::pair<int, uint16_t> BindLoopback() {
  const int bound = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (::bind(bound, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(bound, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    ADD_FAILURE() << "no port is free";
  }
  return {bound, ntohs(address.sin_port)};
}

// A port at which nobody listens, for now.
inline uint16_t FreePort() {
  const auto [bound, port] = BindLoopback();
  ::close(bound);
  return port;
}

inline bool Accepts(uint16_t port) {
  const int tried = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const bool connected =
      ::connect(tried, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  ::close(tried);
  return connected;
}

// The destructor kills it, as does the end of the test program.
class RedisServer {
 public:
  // `arguments` come after those for a port, a folder and no persistence.
  explicit RedisServer(std::vector<std::string> arguments = {}, std::string port_option = "--port")
      : arguments_(std::move(arguments)), port_option_(std::move(port_option)) {
    // Another process may take the port before the server does.
    for (int attempt = 0; attempt < 5 && pid_ < 0; ++attempt) {
      port_ = FreePort();
      Start();
    }
    EXPECT_GT(pid_, 0) << "redis-server does not start";
  }
  ~RedisServer() { Kill(); }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  uint16_t port() const { return port_; }
  RespEndpoint endpoint() const { return {.host = "127.0.0.1", .port = port_}; }

  void Kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  // Again on the same port, empty.
  void Start() {
    std::vector<std::string> words{
        kRedisProgram, "--save", "", "--appendonly", "no", "--dir", folder_.path().string()};
    if (port_option_ != "--port") words.insert(words.end(), {"--port", "0"});
    words.insert(words.end(), {port_option_, std::to_string(port_)});
    words.insert(words.end(), arguments_.begin(), arguments_.end());
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      const int nowhere = ::open("/dev/null", O_RDWR);
      ::dup2(nowhere, 0);
      ::dup2(nowhere, 1);
      ::dup2(nowhere, 2);
      ::execv(kRedisProgram, pointers.data());
      ::_exit(127);
    }
    bool has_ended = false;
    EXPECT_TRUE(test::WaitUntil(
        [&] {
          has_ended = ::waitpid(pid_, nullptr, WNOHANG) == pid_;
          return has_ended || Accepts(port_);
        },
        "redis-server listens"));
    if (has_ended) pid_ = -1;
  }

 private:
  const std::vector<std::string> arguments_;
  const std::string port_option_;
  TempFolder folder_;
  uint16_t port_ = 0;
  pid_t pid_ = -1;
};

inline std::unique_ptr<RespClient> MakeClient(RespOptions options) {
  auto made = RespClient::Make(std::move(options));
  EXPECT_TRUE(made) << made.error().ToString();
  return made ? *std::move(made) : nullptr;
}
inline std::unique_ptr<RespClient> MakeClient(const RespEndpoint& endpoint) {
  return MakeClient({.address = {.endpoints = {endpoint}}});
}

// The reply to one command; an empty one, and a failure of the test, if there is none.
inline RespReply Ask(RespClient& client, std::vector<std::string_view> words,
                     std::string_view key = {}) {
  const auto reply = client.CallOne({.words = std::move(words), .key = key}, In(kLong));
  EXPECT_TRUE(reply) << reply.error().ToString();
  return reply ? *reply : RespReply();
}

}  // namespace kvgate::store::remote
