#include "gateway/cli/http_client.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/optional.hpp>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace kvgate::cli {
namespace {

namespace asio = boost::asio;
namespace bhttp = boost::beast::http;

constexpr int kPollMilliseconds = 100;

struct Url {
  std::string host;
  std::string port;
  std::string path;
};

Result<Url> ParseUrl(std::string_view text) {
  constexpr std::string_view kScheme = "http://";
  if (!text.starts_with(kScheme)) {
    return MakeError(ErrorCode::kInvalidArgument, "cli",
                     fmt::format("'{}' is not a URL like http://127.0.0.1:8080", text));
  }
  const std::string_view rest = text.substr(kScheme.size());
  const size_t slash = rest.find('/');
  const std::string_view authority = rest.substr(0, slash);
  Url url{.host = std::string(authority), .port = "80", .path = "/"};
  if (slash != std::string_view::npos) url.path = rest.substr(slash);
  const size_t colon = authority.rfind(':');
  if (colon != std::string_view::npos && authority.find(']', colon) == std::string_view::npos) {
    url.host = authority.substr(0, colon);
    url.port = authority.substr(colon + 1);
  }
  if (url.host.starts_with('[') && url.host.ends_with(']')) {
    url.host = url.host.substr(1, url.host.size() - 2);
  }
  return url;
}

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

Error Unreachable(std::string_view url, std::string_view reason) {
  return MakeError(
      ErrorCode::kUnavailable, "cli",
      fmt::format("no answer from {}: {}; is `kvgate serve` running there?", url, reason));
}

Result<std::unique_ptr<Socket>> Connect(const Url& url, std::string_view text) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found);
      code != 0) {
    return Unreachable(text, ::gai_strerror(code));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  int problem = 0;
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    auto socket = std::make_unique<Socket>(
        ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
    if (::connect(socket->fd(), at->ai_addr, at->ai_addrlen) == 0) return socket;
    problem = errno;
  }
  return Unreachable(text, std::generic_category().message(problem));
}

bool SendAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

Error Unreadable(const std::filesystem::path& path) {
  return MakeError(ErrorCode::kIo, "cli", fmt::format("{} cannot be read", path.string()));
}

// Stops early, without an error, when the server does: its answer says why.
Result<void> SendFile(int fd, const HttpRequest& request, uint64_t total) {
  std::ifstream file(request.body_file, std::ios::binary);
  std::vector<char> piece(size_t{1} << 18);
  for (uint64_t done = 0; done < total;) {
    file.read(piece.data(),
              static_cast<std::streamsize>(std::min<uint64_t>(piece.size(), total - done)));
    const auto size = static_cast<size_t>(file.gcount());
    if (size == 0) return Unreadable(request.body_file);
    if (!SendAll(fd, {piece.data(), size})) return {};
    done += size;
    if (request.on_sent) request.on_sent(done, total);
  }
  return {};
}

// Feeds what the socket gives to a parser, and hands on the body's pieces.
class Exchange {
 public:
  Exchange(const HttpRequest& request, int fd) : request_(request), fd_(fd) {
    parser_.body_limit(boost::none);
    parser_.eager(true);
  }

  Result<HttpReply> Run() {
    while (!parser_.is_done()) {
      if (request_.stop != nullptr && request_.stop->load()) {
        return MakeError(ErrorCode::kCancelled, "cli", "stopped");
      }
      pollfd state{.fd = fd_, .events = POLLIN, .revents = 0};
      if (::poll(&state, 1, kPollMilliseconds) <= 0) continue;
      std::array<char, 16384> piece;
      const ssize_t size = ::recv(fd_, piece.data(), piece.size(), 0);
      if (size < 0 && errno == EINTR) continue;
      KVGATE_TRY_VOID(Feed({piece.data(), static_cast<size_t>(size < 0 ? 0 : size)}));
      HandOn();
    }
    reply_.status = static_cast<int>(parser_.get().result_int());
    return std::move(reply_);
  }

 private:
  Result<void> Feed(std::string_view piece) {
    boost::beast::error_code code;
    if (piece.empty()) {
      parser_.put_eof(code);
      if (code || !parser_.is_done()) return Unreachable(request_.url, "it closed the connection");
      return {};
    }
    const auto to = unread_.prepare(piece.size());
    unread_.commit(asio::buffer_copy(to, asio::buffer(piece)));
    while (unread_.size() > 0 && !parser_.is_done()) {
      const size_t used = parser_.put(unread_.data(), code);
      unread_.consume(used);
      if (code == bhttp::error::need_more) break;
      if (code) return Unreachable(request_.url, code.message());
      if (used == 0) break;
    }
    return {};
  }

  void HandOn() {
    if (!parser_.is_header_done()) return;
    std::string& body = parser_.get().body();
    if (request_.on_data && parser_.get().result_int() == 200) {
      if (!body.empty()) request_.on_data(body);
    } else {
      reply_.body += body;
    }
    body.clear();
  }

  const HttpRequest& request_;
  const int fd_;
  bhttp::response_parser<bhttp::string_body> parser_;
  boost::beast::flat_buffer unread_;
  HttpReply reply_;
};

}  // namespace

Result<HttpReply> FetchHttp(const HttpRequest& request) {
  KVGATE_TRY(const Url url, ParseUrl(request.url));
  KVGATE_TRY(const std::unique_ptr<Socket> socket, Connect(url, request.url));
  const std::string host =
      url.host.find(':') == std::string::npos ? url.host : fmt::format("[{}]", url.host);
  uint64_t body_bytes = request.body.size();
  if (!request.body_file.empty()) {
    std::error_code code;
    body_bytes = std::filesystem::file_size(request.body_file, code);
    if (code) return Unreadable(request.body_file);
  }
  std::string head = fmt::format(
      "{} {} HTTP/1.1\r\nHost: {}:{}\r\nContent-Type: {}\r\nContent-Length: {}\r\n"
      "Connection: close\r\n",
      request.method, url.path, host, url.port,
      request.body_file.empty() ? "application/json" : "application/octet-stream", body_bytes);
  if (!request.authorization.empty()) head += "Authorization: " + request.authorization + "\r\n";
  if (!SendAll(socket->fd(), head + "\r\n" + request.body)) {
    return Unreachable(request.url, "it closed the connection");
  }
  if (!request.body_file.empty()) {
    KVGATE_TRY_VOID(SendFile(socket->fd(), request, body_bytes));
  }
  return Exchange(request, socket->fd()).Run();
}

Result<std::string> FetchOk(const HttpRequest& request) {
  KVGATE_TRY(HttpReply reply, FetchHttp(request));
  if (reply.status == 200) return std::move(reply.body);
  std::string message = fmt::format("{} answered {}", request.url, reply.status);
  const nlohmann::json body = nlohmann::json::parse(reply.body, nullptr, false);
  if (body.is_object() && body.contains("error") && body["error"].is_object()) {
    const auto& text = body["error"].value("message", nlohmann::json());
    if (text.is_string()) message = text.get<std::string>();
  }
  return MakeError(ErrorCode::kUnavailable, "cli", message);
}

}  // namespace kvgate::cli
