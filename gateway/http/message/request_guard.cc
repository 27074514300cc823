#include "gateway/http/message/request_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace kvgate::http::message {

using proxy::request::Response;
using proxy::request::StatusResponse;

namespace {

std::string ToLower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

// The host of "[::1]:8080" or "localhost:8080" without the port.
std::string_view HostName(std::string_view authority) {
  if (authority.starts_with('[')) return authority.substr(0, authority.find(']') + 1);
  return authority.substr(0, authority.find(':'));
}

// Ignores parameters, as in "application/json; charset=utf-8".
bool IsType(std::string_view content_type, std::string_view wanted) {
  std::string_view media = content_type.substr(0, content_type.find(';'));
  while (!media.empty() && (media.back() == ' ' || media.back() == '\t')) media.remove_suffix(1);
  return ToLower(media) == wanted;
}

// The authority of "http://localhost:8080"; empty for opaque origins such as "null".
std::string_view OriginAuthority(std::string_view origin) {
  const size_t scheme_end = origin.find("://");
  return scheme_end == std::string_view::npos ? "" : origin.substr(scheme_end + 3);
}

}  // namespace

RequestGuard::RequestGuard(std::vector<std::string> allowed_hosts)
    : allowed_hosts_(std::move(allowed_hosts)) {
  for (std::string& host : allowed_hosts_) {
    host = ToLower(host);
    const bool bare_ipv6 = host.find(':') != std::string::npos && !host.starts_with('[');
    if (bare_ipv6) host = fmt::format("[{}]", host);
  }
  for (const char* loopback : {"localhost", "127.0.0.1", "[::1]"}) {
    allowed_hosts_.emplace_back(loopback);
  }
}

std::optional<Response> RequestGuard::Check(const GuardedHead& head) const {
  if (head.host.empty()) {
    if (!head.http_1_0) return StatusResponse(400, "The request has no Host header.");
  } else {
    const std::string name = ToLower(HostName(head.host));
    if (std::find(allowed_hosts_.begin(), allowed_hosts_.end(), name) == allowed_hosts_.end()) {
      return StatusResponse(
          421, fmt::format("This server does not answer for the host '{}'; server.allowed_hosts "
                           "of its configuration names those it does.",
                           name));
    }
  }
  if (!head.origin.empty()) {
    const std::string authority = ToLower(OriginAuthority(head.origin));
    if (authority.empty() || authority != ToLower(head.host)) {
      return StatusResponse(
          403, fmt::format("Requests from the web page origin '{}' are refused.", head.origin));
    }
  }
  const std::string_view wanted =
      head.takes_bytes ? "application/octet-stream" : "application/json";
  // A browser asks before it sends any method but POST, so those may come without a type.
  const bool has_content =
      head.method == "POST" ||
      (!head.content_type.empty() && (head.method == "PUT" || head.method == "PATCH"));
  const bool is_merge_patch =
      head.method == "PATCH" && IsType(head.content_type, "application/merge-patch+json");
  if (has_content && !is_merge_patch && !IsType(head.content_type, wanted)) {
    return StatusResponse(
        415, fmt::format("The Content-Type must be {}, not '{}'.", wanted, head.content_type));
  }
  return std::nullopt;
}

}  // namespace kvgate::http::message
