#include "gateway/upstream/wire/header_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace kvgate::upstream::wire {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

// Returns true if the Connection header's value lists `name`.
bool Lists(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    std::string_view item = list.substr(0, comma);
    while (!item.empty() && (item.front() == ' ' || item.front() == '\t')) item.remove_prefix(1);
    while (!item.empty() && (item.back() == ' ' || item.back() == '\t')) item.remove_suffix(1);
    if (SameName(item, name)) return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

bool ListedInConnection(const HeaderFields& fields, std::string_view name) {
  return std::any_of(fields.begin(), fields.end(), [&](const HeaderField& field) {
    return SameName(field.name, "connection") && Lists(field.value, name);
  });
}

bool IsOurs(std::string_view name) {
  constexpr std::string_view kPrefix = "x-kvgate-";
  return name.size() >= kPrefix.size() && SameName(name.substr(0, kPrefix.size()), kPrefix);
}

void Append(std::string_view name, std::string_view value, std::string& head) {
  head.append(name).append(": ").append(value).append("\r\n");
}

// Framing belongs to the message and not to the connection, so it passes even if Connection lists
// it.
bool Passes(const HeaderFields& fields, std::string_view name) {
  if (IsHopByHop(name) || IsOurs(name)) return false;
  return SameName(name, "content-length") || SameName(name, "host") ||
         !ListedInConnection(fields, name);
}

}  // namespace

bool SameBytes(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(),
                    [](char x, char y) { return Lower(x) == Lower(y); });
}

std::string_view FindHeader(const HeaderFields& fields, std::string_view name) {
  for (const HeaderField& field : fields) {
    if (SameName(field.name, name)) return field.value;
  }
  return "";
}

bool IsCredential(std::string_view name) {
  static constexpr std::string_view kNames[] = {"authorization", "x-api-key", "x-goog-api-key"};
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](std::string_view known) { return SameName(known, name); });
}

bool IsHopByHop(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "connection", "keep-alive",    "proxy-connection",    "proxy-authenticate",
      "te",         "trailer",       "proxy-authorization", "transfer-encoding",
      "upgrade",    "http2-settings"};
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](std::string_view known) { return SameName(known, name); });
}

std::string_view CredentialHeader(dialect::form::Api api) {
  if (api == dialect::form::Api::kGemini) return "x-goog-api-key";
  return api == dialect::form::Api::kAnthropic ? "x-api-key" : "Authorization";
}

std::string RequestHead(const RequestHeadArgs& args) {
  std::string head;
  head.reserve(1024);
  head.append(args.method).append(" ").append(args.target).append(" HTTP/1.1\r\n");
  bool host_written = false;
  bool length_written = false;
  bool key_written = args.api_key.empty();
  // Takes the place of the caller's credential, in that one's spelling if it is of that name.
  const auto write_key = [&](std::string_view replaced) {
    if (std::exchange(key_written, true)) return;
    const std::string_view own = CredentialHeader(args.dialect);
    const std::string_view name = SameName(replaced, own) ? replaced : own;
    if (args.dialect == dialect::form::Api::kOpenAi) {
      Append(name, fmt::format("Bearer {}", args.api_key), head);
    } else {
      Append(name, args.api_key, head);
    }
  };
  for (const HeaderField& field : args.fields) {
    if (!Passes(args.fields, field.name) || SameName(field.name, "expect")) continue;
    if (args.drop_encoding && SameName(field.name, "content-encoding")) continue;
    if (args.drop_accept_encoding && SameName(field.name, "accept-encoding")) continue;
    if (SameName(field.name, "host")) {
      if (!std::exchange(host_written, true)) Append(field.name, args.host, head);
      continue;
    }
    if (IsCredential(field.name) && (args.drop_credential || !args.api_key.empty())) {
      write_key(field.name);
      continue;
    }
    if (SameName(field.name, "content-length")) {
      // The length is written anew, because others may read a spelling such as "010" differently.
      if (!std::exchange(length_written, true)) {
        Append(field.name, fmt::format("{}", args.body_bytes), head);
      }
      continue;
    }
    Append(field.name, field.value, head);
  }
  for (const HeaderField& field : args.added) Append(field.name, field.value, head);
  if (!host_written) Append("Host", args.host, head);
  write_key({});
  // A body that came in chunks is sent with a length.
  if (!length_written && args.body_bytes > 0) {
    Append("Content-Length", fmt::format("{}", args.body_bytes), head);
  }
  head += "\r\n";
  return head;
}

std::string ForwardedHead(const ResponseHeadArgs& args) {
  std::string head;
  head.reserve(1024);
  head.append(args.http_1_0 ? "HTTP/1.0 " : "HTTP/1.1 ");
  head.append(std::to_string(args.status)).append(" ").append(args.reason).append("\r\n");
  bool length_written = args.status == 204 || args.chunked;
  for (const HeaderField& field : args.fields) {
    if (!Passes(args.fields, field.name)) continue;
    if (SameName(field.name, "content-length")) {
      const std::string_view length = field.value.substr(0, field.value.find(','));
      if (!std::exchange(length_written, true)) Append(field.name, length, head);
      continue;
    }
    Append(field.name, field.value, head);
  }
  Append("x-kvgate-request-id", args.request_id, head);
  if (!args.compaction.empty()) Append("x-kvgate-compaction", args.compaction, head);
  if (!args.prompt.empty()) Append("x-kvgate-prompt", args.prompt, head);
  if (args.chunked) head += "transfer-encoding: chunked\r\n";
  if (!args.keep_alive) {
    head += "connection: close\r\n";
  } else if (args.http_1_0) {
    head += "connection: keep-alive\r\n";
  }
  head += "\r\n";
  return head;
}

std::string UpstreamTarget(std::string_view base_path, dialect::form::Api dialect,
                           std::string_view target) {
  // The host of an absolute form is this gateway's, not the upstream's.
  const size_t scheme = target.starts_with('/') ? std::string_view::npos : target.find("://");
  if (scheme != std::string_view::npos && scheme < 8) {
    const size_t slash = target.find('/', scheme + 3);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  if (dialect == dialect::form::Api::kOpenAi && target.starts_with("/v1/")) target.remove_prefix(3);
  // A base URL may hold the version or not.
  constexpr std::string_view kVersion = "/v1beta";
  if (dialect == dialect::form::Api::kGemini && base_path.ends_with(kVersion) &&
      target.starts_with(kVersion)) {
    target.remove_prefix(kVersion.size());
  }
  return std::string(base_path).append(target);
}

}  // namespace kvgate::upstream::wire
