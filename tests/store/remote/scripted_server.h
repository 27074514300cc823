// ScriptedServer: a server on 127.0.0.1 that does to each client what a test says, byte by byte.
#pragma once

#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "store/remote/resp_url.h"
#include "tests/store/remote/redis_server.h"

namespace kvgate::store::remote {

using Words = std::vector<std::string>;

inline constexpr std::string_view kHelloReply =
    "%3\r\n$6\r\nserver\r\n$8\r\nscripted\r\n$7\r\nversion\r\n$1\r\n1\r\n"
    "$4\r\nmode\r\n$10\r\nstandalone\r\n";
inline constexpr std::string_view kClusterHelloReply =
    "%3\r\n$6\r\nserver\r\n$8\r\nscripted\r\n$7\r\nversion\r\n$1\r\n1\r\n"
    "$4\r\nmode\r\n$7\r\ncluster\r\n";

class ScriptedServer {
 public:
  // The server's end of one connection.
  class Peer {
   public:
    Peer(ScriptedServer& server, int socket) : server_(server), socket_(socket) {}
    // The next command; nothing if the client has left or the test ends.
    std::optional<Words> ReadCommand() {
      const auto count = ReadNumber('*');
      if (!count) return std::nullopt;
      Words words;
      for (int64_t index = 0; index < *count; ++index) {
        const auto size = ReadNumber('$');
        if (!size || !Need(static_cast<size_t>(*size) + 2)) return std::nullopt;
        words.push_back(bytes_.substr(0, static_cast<size_t>(*size)));
        bytes_.erase(0, static_cast<size_t>(*size) + 2);
      }
      return words;
    }
    bool Send(std::string_view bytes) {
      while (!bytes.empty()) {
        const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent <= 0) return false;
        bytes.remove_prefix(static_cast<size_t>(sent));
      }
      return true;
    }
    // Returns false if the test ended meanwhile.
    bool Wait(std::chrono::milliseconds time) {
      std::unique_lock lock(server_.mutex_);
      return !server_.changed_.wait_for(lock, time, [this] { return server_.is_stopping_; });
    }
    // Until the test ends.
    void Stay() { Wait(std::chrono::hours(1)); }

   private:
    bool Need(size_t size) {
      while (bytes_.size() < size) {
        char part[16'384];
        const ssize_t got = ::recv(socket_, part, sizeof(part), 0);
        if (got <= 0) return false;
        bytes_.append(part, static_cast<size_t>(got));
      }
      return true;
    }
    std::optional<int64_t> ReadNumber(char type) {
      size_t end = 0;
      while ((end = bytes_.find("\r\n")) == std::string::npos) {
        if (!Need(bytes_.size() + 1)) return std::nullopt;
      }
      int64_t value = 0;
      EXPECT_EQ(bytes_[0], type);
      std::from_chars(bytes_.data() + 1, bytes_.data() + end, value);
      bytes_.erase(0, end + 2);
      return value;
    }

    ScriptedServer& server_;
    const int socket_;
    std::string bytes_;
  };
  // The connection is closed when it returns.
  using Script = std::function<void(Peer&)>;

  explicit ScriptedServer(Script script) : script_(std::move(script)) {
    std::tie(listener_, port_) = BindLoopback();
    EXPECT_EQ(::listen(listener_, 64), 0);
    acceptor_ = std::thread([this] { Accept(); });
  }
  ~ScriptedServer() {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
      for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
    }
    changed_.notify_all();
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    for (std::thread& thread : threads_) thread.join();
    ::close(listener_);
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  // A server that says hello, and answers other commands as told.
  static Script Answering(std::function<std::string(const Words&)> answer,
                          std::string_view hello = kHelloReply) {
    return [answer = std::move(answer), hello](Peer& peer) {
      while (const auto words = peer.ReadCommand()) {
        if (!peer.Send(words->front() == "HELLO" ? std::string(hello) : answer(*words))) return;
      }
    };
  }
  // Says hello, and then does to the first command what the script says.
  static Script Greeted(Script script) {
    return [script = std::move(script)](Peer& peer) {
      if (!peer.ReadCommand() || !peer.Send(kHelloReply)) return;
      if (peer.ReadCommand()) script(peer);
    };
  }

  RespEndpoint endpoint() const { return {.host = "127.0.0.1", .port = port_}; }
  int num_accepted() const { return num_accepted_; }

 private:
  void Accept() {
    while (true) {
      const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (socket < 0) return;
      const std::lock_guard lock(mutex_);
      if (is_stopping_) {
        ::close(socket);
        return;
      }
      ++num_accepted_;
      const int now = 1;
      ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &now, sizeof(now));
      sockets_.push_back(socket);
      threads_.emplace_back([this, socket] {
        Peer peer(*this, socket);
        script_(peer);
        const std::lock_guard closing(mutex_);
        std::erase(sockets_, socket);
        ::close(socket);
      });
    }
  }

  const Script script_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<int> num_accepted_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ = false;
  std::vector<int> sockets_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace kvgate::store::remote
