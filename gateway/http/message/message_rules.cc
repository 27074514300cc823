#include "gateway/http/message/message_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gateway/proxy/handler/router.h"
#include "gateway/proxy/request/query.h"
#include "gateway/proxy/request/request_context.h"
#include "gateway/upstream/wire/header_rules.h"

namespace kvgate::http::message {

using proxy::request::PathOf;
using proxy::request::PercentDecode;
using proxy::request::Response;
using proxy::request::StatusResponse;

namespace {

namespace bhttp = boost::beast::http;

// 2^64 has 20 digits; longer values with leading zeros are legal, but nobody sends them.
constexpr size_t kLengthDigitsMax = 19;

bool IsDigits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// One look at a table for each byte: find_first_of would make a call for each.
bool IsNotOfAuthority(char c) {
  static constexpr std::array<bool, 256> kTable = [] {
    std::array<bool, 256> table{};
    for (const char no : std::string_view("@/\\?#, \t\"<>")) {
      table[static_cast<unsigned char>(no)] = true;
    }
    return table;
  }();
  return kTable[static_cast<unsigned char>(c)];
}

// Checks the syntax of a host with an optional port; RequestGuard decides if the host is allowed.
bool IsAuthority(std::string_view text) {
  if (std::any_of(text.begin(), text.end(), IsNotOfAuthority)) return false;
  const size_t name_end = text.starts_with('[') ? text.find(']') : text.find(':');
  if (name_end == std::string_view::npos) return !text.starts_with('[');
  std::string_view port = text.substr(name_end + (text.starts_with('[') ? 1 : 0));
  if (port.empty()) return true;
  return port.front() == ':' && IsDigits(port.substr(1));
}

// True for "/v1/../x", even if the dots or slashes are percent-encoded.
bool Climbs(std::string_view path) {
  // Most paths have no such characters and need no copy.
  if (path.find("/.") == std::string_view::npos && path.find('%') == std::string_view::npos &&
      path.find('\\') == std::string_view::npos) {
    return false;
  }
  const std::string decoded = PercentDecode(path);
  std::string_view rest = decoded;
  while (!rest.empty()) {
    const std::string_view segment = rest.substr(0, rest.find_first_of("/\\"));
    if (segment == "." || segment == "..") return true;
    rest.remove_prefix(std::min(rest.size(), segment.size() + 1));
  }
  return false;
}

struct Framing {
  int num_lengths = 0;
  int num_codings = 0;
  int num_hosts = 0;
  std::string_view length;
  std::string_view coding;
  std::string_view host;
  std::string_view expect;
};

Framing FramingOf(const bhttp::request_header<>& head) {
  Framing framing;
  for (const auto& field : head) {
    switch (field.name()) {
      case bhttp::field::content_length:
        ++framing.num_lengths;
        framing.length = ToView(field.value());
        break;
      case bhttp::field::transfer_encoding:
        ++framing.num_codings;
        framing.coding = ToView(field.value());
        break;
      case bhttp::field::host:
        ++framing.num_hosts;
        framing.host = ToView(field.value());
        break;
      case bhttp::field::expect:
        framing.expect = ToView(field.value());
        break;
      default:
        break;
    }
  }
  return framing;
}

std::optional<Response> CheckLength(const Framing& framing, bool http_1_0) {
  if (framing.num_lengths > 1) {
    return StatusResponse(400, "The request has more than one Content-Length header.");
  }
  if (framing.num_lengths == 1 && (framing.length.empty() || !IsDigits(framing.length) ||
                                   framing.length.size() > kLengthDigitsMax)) {
    return StatusResponse(400, "The request's Content-Length is not a number.");
  }
  if (framing.num_codings == 0) return std::nullopt;
  if (framing.num_lengths > 0 || framing.num_codings > 1 || http_1_0) {
    return StatusResponse(400,
                          "A Transfer-Encoding header must be the only one, without a "
                          "Content-Length, in HTTP/1.1.");
  }
  constexpr std::string_view kChunked = "chunked";
  if (upstream::wire::SameName(framing.coding, kChunked)) return std::nullopt;
  const size_t comma = framing.coding.rfind(',');
  std::string_view last =
      comma == std::string_view::npos ? framing.coding : framing.coding.substr(comma + 1);
  last.remove_prefix(std::min(last.find_first_not_of(" \t"), last.size()));
  if (comma != std::string_view::npos && upstream::wire::SameName(last, kChunked)) {
    return StatusResponse(501, "The only transfer coding that is understood here is chunked.");
  }
  return StatusResponse(400, "The request's Transfer-Encoding does not end in chunked.");
}

std::optional<Response> CheckTarget(std::string_view method, std::string_view target,
                                    const Framing& framing) {
  if (method == "CONNECT" || method == "TRACE") {
    return StatusResponse(501, fmt::format("{} is not served here.", method));
  }
  if (method == "OPTIONS" && target == "*") return std::nullopt;
  if (!target.starts_with('/')) {
    const size_t scheme = target.find("://");
    const bool absolute = scheme != std::string_view::npos &&
                          (upstream::wire::SameName(target.substr(0, scheme), "http") ||
                           upstream::wire::SameName(target.substr(0, scheme), "https"));
    if (!absolute) {
      return StatusResponse(400, "The request's target is neither a path nor a URL.");
    }
    const size_t begin = scheme + 3;
    const std::string_view authority =
        target.substr(begin, target.find_first_of("/?#", begin) - begin);
    if (!upstream::wire::SameName(authority, framing.host)) {
      return StatusResponse(400, "The request's target and its Host header name different hosts.");
    }
  }
  if (target.find('#') != std::string_view::npos) {
    return StatusResponse(400, "The request's target has a fragment.");
  }
  if (Climbs(PathOf(target))) {
    return StatusResponse(400, "The request's path has '.' or '..' in it.");
  }
  return std::nullopt;
}

}  // namespace

std::optional<Response> CheckMessage(const bhttp::request_header<>& head) {
  const Framing framing = FramingOf(head);
  const bool http_1_0 = head.version() < 11;
  std::optional<Response> refusal = CheckLength(framing, http_1_0);
  if (refusal) return refusal;
  if (framing.num_hosts > 1 || !IsAuthority(framing.host)) {
    return StatusResponse(400, "The request's Host header is not one host.");
  }
  refusal = CheckTarget(ToView(head.method_string()), ToView(head.target()), framing);
  if (refusal) return refusal;
  if (!http_1_0 && !framing.expect.empty() &&
      !upstream::wire::SameName(framing.expect, "100-continue")) {
    return StatusResponse(417, "The only expectation that is understood here is 100-continue.");
  }
  return std::nullopt;
}

std::optional<Response> CheckUpgrade(const bhttp::request_header<>& head) {
  constexpr std::string_view kWebSocket = "websocket";
  const auto [begin, end] = head.equal_range(bhttp::field::upgrade);
  const bool asks = std::any_of(begin, end, [&](const auto& field) {
    return upstream::wire::SameName(ToView(field.value()), kWebSocket);
  });
  if (!asks || head.method() != bhttp::verb::get) return std::nullopt;
  if (!PathOf(ToView(head.target())).starts_with("/v1/")) return std::nullopt;
  Response refusal = StatusResponse(
      426, "WebSockets are not served here: send the same request as a POST over HTTP/1.1.");
  refusal.headers.emplace_back("upgrade", "HTTP/1.1");
  refusal.headers.emplace_back("connection", "upgrade");
  return refusal;
}

}  // namespace kvgate::http::message
