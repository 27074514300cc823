#include "gateway/cli/server/http_client.h"

#include <fmt/format.h>

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
#include <optional>
#include <utility>
#include <vector>

#include "gateway/cli/server/http_link.h"

namespace kvgate::cli::server {
namespace {

namespace asio = boost::asio;
namespace bhttp = boost::beast::http;

struct Url {
  HttpLink::Target target;
  std::string authority;  // for the Host header
  std::string path;
};

Result<Url> ParseUrl(std::string_view text) {
  Url url;
  std::string_view rest = text;
  if (text.starts_with("http://")) {
    rest.remove_prefix(7);
  } else if (text.starts_with("https://")) {
    rest.remove_prefix(8);
    url.target.tls = true;
  } else {
    return MakeError(ErrorCode::kInvalidArgument, "cli",
                     fmt::format("'{}' is not a URL like http://127.0.0.1:8080", text));
  }
  const size_t slash = rest.find('/');
  const std::string_view authority = rest.substr(0, slash);
  HttpLink::Target& target = url.target;
  target.host = authority;
  target.port = target.tls ? "443" : "80";
  url.path = slash == std::string_view::npos ? "/" : rest.substr(slash);
  const size_t colon = authority.rfind(':');
  if (colon != std::string_view::npos && authority.find(']', colon) == std::string_view::npos) {
    target.host = authority.substr(0, colon);
    target.port = authority.substr(colon + 1);
  }
  url.authority = fmt::format("{}:{}", target.host, target.port);
  if (target.host.starts_with('[') && target.host.ends_with(']')) {
    target.host = target.host.substr(1, target.host.size() - 2);
  }
  return url;
}

Error Unreachable(std::string_view url, std::string_view reason) {
  return MakeError(
      ErrorCode::kUnavailable, "cli",
      fmt::format("no answer from {}: {}; is `kvgate serve` running there?", url, reason));
}

Error Unreadable(const std::filesystem::path& path) {
  return MakeError(ErrorCode::kIo, "cli", fmt::format("{} cannot be read", path.string()));
}

// Stops early, without an error, if the server closes the connection; its answer says why.
Result<void> SendFile(HttpLink& link, const HttpRequest& request, uint64_t total) {
  std::ifstream file(request.body_file, std::ios::binary);
  std::vector<char> piece(size_t{1} << 18);
  for (uint64_t done = 0; done < total;) {
    file.read(piece.data(),
              static_cast<std::streamsize>(std::min<uint64_t>(piece.size(), total - done)));
    const auto size = static_cast<size_t>(file.gcount());
    if (size == 0) return Unreadable(request.body_file);
    if (!link.Send({piece.data(), size})) return {};
    done += size;
    if (request.on_sent) request.on_sent(done, total);
  }
  return {};
}

// Feeds received bytes to a parser and passes on the pieces of the body.
class Exchange {
 public:
  Exchange(const HttpRequest& request, HttpLink& link) : request_(request), link_(link) {
    parser_.body_limit(boost::none);
    parser_.eager(true);
  }

  Result<HttpReply> Run() {
    while (!parser_.is_done()) {
      if (request_.stop != nullptr && request_.stop->load()) {
        return MakeError(ErrorCode::kCancelled, "cli", "stopped");
      }
      std::array<char, 16384> piece;
      const std::optional<size_t> size = link_.Receive(piece);
      if (!size) continue;
      KVGATE_TRY_VOID(Feed({piece.data(), *size}));
      HandOn();
    }
    reply_.status = static_cast<int>(parser_.get().result_int());
    return std::move(reply_);
  }

 private:
  Result<void> Feed(std::string_view piece) {
    boost::beast::error_code code;
    if (piece.empty()) {
      // The parser takes an end without any byte for a whole answer.
      if (!parser_.got_some()) return Unreachable(request_.url, "it closed the connection");
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
  HttpLink& link_;
  bhttp::response_parser<bhttp::string_body> parser_;
  boost::beast::flat_buffer unread_;
  HttpReply reply_;
};

}  // namespace

Result<HttpReply> FetchHttp(const HttpRequest& request) {
  KVGATE_TRY(Url url, ParseUrl(request.url));
  url.target.certificate_sha256 = request.certificate_sha256;
  const Result<std::unique_ptr<HttpLink>> opened = HttpLink::Connect(url.target);
  if (!opened) return Unreachable(request.url, opened.error().detail);
  HttpLink& link = **opened;
  uint64_t body_bytes = request.body.size();
  if (!request.body_file.empty()) {
    std::error_code code;
    body_bytes = std::filesystem::file_size(request.body_file, code);
    if (code) return Unreadable(request.body_file);
  }
  std::string head = fmt::format(
      "{} {} HTTP/1.1\r\nHost: {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n"
      "Connection: close\r\n",
      request.method, url.path, url.authority,
      request.body_file.empty() ? "application/json" : "application/octet-stream", body_bytes);
  if (!request.authorization.empty()) head += "Authorization: " + request.authorization + "\r\n";
  if (!request.session.empty()) head += "x-kvgate-session: " + request.session + "\r\n";
  if (!request.api_key.empty()) head += "x-api-key: " + request.api_key + "\r\n";
  if (!request.admin_token.empty()) head += "x-kvgate-admin: " + request.admin_token + "\r\n";
  if (!link.Send(head + "\r\n" + request.body)) {
    return Unreachable(request.url, "it closed the connection");
  }
  if (!request.body_file.empty()) {
    KVGATE_TRY_VOID(SendFile(link, request, body_bytes));
  }
  return Exchange(request, link).Run();
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
  const bool has_key = !request.authorization.empty() || !request.api_key.empty();
  if (reply.status == 401 && !has_key) {
    message += " Name the environment variable that holds one with --key-env.";
  }
  return MakeError(ErrorCode::kUnavailable, "cli", message);
}

}  // namespace kvgate::cli::server
