// RawClient is a client socket that sends exactly the given bytes, for cases that an HTTP library
// would hide.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace kvgate::test {

struct RawResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names as sent
  std::string body;                            // chunks joined
  bool complete = false;
};

class RawClient {
 public:
  explicit RawClient(uint16_t port, int receive_buffer = 0) {
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    if (receive_buffer > 0) {
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~RawClient() { Close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  int fd() const { return fd_; }
  bool connected() const { return connected_; }
  void Close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void ShutdownSend() { ::shutdown(fd_, SHUT_WR); }

  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // Reads once, for at most `timeout`. Returns false at the end of the stream, on an error or on
  // the timeout.
  bool ReadSome(std::chrono::milliseconds timeout = std::chrono::seconds(10)) {
    pollfd state{.fd = fd_, .events = POLLIN, .revents = 0};
    if (::poll(&state, 1, static_cast<int>(timeout.count())) <= 0) return false;
    char bytes[65536];
    const ssize_t size = ::recv(fd_, bytes, sizeof(bytes), 0);
    if (size < 0) reset_ = true;
    if (size <= 0) return false;
    pending_.append(bytes, static_cast<size_t>(size));
    return true;
  }
  bool was_reset() const { return reset_; }

  // Reads until the connection ends.
  std::string ReadAll() {
    while (ReadSome()) {
    }
    return std::exchange(pending_, {});
  }
  // Reads until `mark` has been seen; the bytes so far stay unread for ReadResponse. Returns false
  // if the connection ends first.
  bool WaitFor(std::string_view mark) {
    while (pending_.find(mark) == std::string::npos) {
      if (!ReadSome()) return false;
    }
    return true;
  }

  // Reads one response and skips interim ones (100).
  RawResponse ReadResponse(bool head_only = false) {
    while (true) {
      RawResponse response = ReadOne(head_only);
      if (response.status != 100) return response;
    }
  }

 private:
  bool Need(size_t size) {
    while (pending_.size() < size) {
      if (!ReadSome()) return false;
    }
    return true;
  }

  RawResponse ReadOne(bool head_only) {
    RawResponse response;
    if (!WaitFor("\r\n\r\n")) return response;
    const size_t end = pending_.find("\r\n\r\n");
    std::string head = pending_.substr(0, end + 2);
    pending_.erase(0, end + 4);
    response.status = std::atoi(head.c_str() + 9);
    size_t line = head.find("\r\n") + 2;
    while (line < head.size()) {
      const size_t stop = head.find("\r\n", line);
      const size_t colon = head.find(": ", line);
      response.headers[head.substr(line, colon - line)] = head.substr(colon + 2, stop - colon - 2);
      line = stop + 2;
    }
    if (head_only || response.status == 100) {
      response.complete = true;
    } else if (response.headers.contains("content-length")) {
      const size_t length = std::stoul(response.headers["content-length"]);
      response.complete = Need(length);
      response.body = pending_.substr(0, length);
      pending_.erase(0, length);
    } else if (response.headers.contains("transfer-encoding")) {
      response.complete = ReadChunks(response.body);
    } else {
      response.body = ReadAll();
      response.complete = true;
    }
    return response;
  }

  bool ReadChunks(std::string& body) {
    while (true) {
      if (!WaitFor("\r\n")) return false;
      const size_t size = std::stoul(pending_, nullptr, 16);
      pending_.erase(0, pending_.find("\r\n") + 2);
      if (!Need(size + 2)) return false;
      body += pending_.substr(0, size);
      pending_.erase(0, size + 2);
      if (size == 0) return true;
    }
  }

  int fd_ = -1;
  bool connected_ = false;
  bool reset_ = false;
  std::string pending_;
};

}  // namespace kvgate::test
