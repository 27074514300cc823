// ScriptedUpstream does what a test tells it, byte by byte: it is a listener that hands each
// connection to a function on its own thread.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace kvgate::test {

// Peer is one of its connections; the destructor closes it.
class Peer {
 public:
  explicit Peer(int fd) : fd_(fd) {}
  ~Peer() { ::close(fd_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // Reads one request, head and body; without a Content-Length there is no body. Returns "" if the
  // connection has ended.
  std::string ReadRequest() {
    while (true) {
      const size_t end = pending_.find("\r\n\r\n");
      if (end != std::string::npos) {
        const size_t at = pending_.find("Content-Length: ");
        const size_t length = at < end ? std::stoul(pending_.substr(at + 16)) : 0;
        if (pending_.size() >= end + 4 + length) {
          std::string request = pending_.substr(0, end + 4 + length);
          pending_.erase(0, request.size());
          return request;
        }
      }
      char bytes[65536];
      const ssize_t size = ::recv(fd_, bytes, sizeof(bytes), 0);
      if (size <= 0) return "";
      pending_.append(bytes, static_cast<size_t>(size));
    }
  }
  // Returns true if the other side ends the connection within the time.
  bool WaitForEnd(std::chrono::milliseconds time) {
    pollfd state{.fd = fd_, .events = POLLRDHUP, .revents = 0};
    return ::poll(&state, 1, static_cast<int>(time.count())) > 0;
  }
  // Makes the destructor end the connection with a reset.
  void Reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  }
  int fd() const { return fd_; }

 private:
  const int fd_;
  std::string pending_;
};

class ScriptedUpstream {
 public:
  using Script = std::function<void(Peer& peer, int connection)>;
  explicit ScriptedUpstream(Script script) : script_(std::move(script)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
    ::listen(listener_, 64);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { Accept(); });
  }
  ~ScriptedUpstream() {
    ::shutdown(listener_, SHUT_RDWR);
    accepting_.join();
    ::close(listener_);
    for (std::thread& thread : threads_) thread.join();
  }

  uint16_t port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/v1"; }
  int num_connections() const { return num_connections_.load(); }

 private:
  void Accept() {
    while (true) {
      const int fd = ::accept(listener_, nullptr, nullptr);
      if (fd < 0) return;
      const int connection = num_connections_.fetch_add(1);
      threads_.emplace_back([this, fd, connection] {
        Peer peer(fd);
        script_(peer, connection);
      });
    }
  }

  const Script script_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<int> num_connections_{0};
  std::thread accepting_;
  std::vector<std::thread> threads_;  // used by the accepting thread alone until it has ended
};

}  // namespace kvgate::test
