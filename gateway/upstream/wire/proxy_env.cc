#include "gateway/upstream/wire/proxy_env.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/base64.h"
#include "gateway/upstream/wire/header_rules.h"

namespace kvgate::upstream::wire {
namespace {

std::string FirstOf(const Environment& environment, const char* lower, const char* upper) {
  std::string value = environment(lower);
  return value.empty() ? environment(upper) : value;
}

bool IsExemptBy(std::string_view entry, const config::Url& url) {
  if (entry == "*") return true;
  const std::string host_and_port = fmt::format("{}:{}", url.host, url.port);
  if (SameName(entry, host_and_port)) return true;
  while (entry.starts_with('.')) entry.remove_prefix(1);
  if (entry.empty() || entry.size() > url.host.size()) return false;
  const std::string_view end = std::string_view(url.host).substr(url.host.size() - entry.size());
  if (!SameName(end, entry)) return false;
  return end.size() == url.host.size() || url.host[url.host.size() - end.size() - 1] == '.';
}

}  // namespace

std::string ProcessEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool IsExempt(std::string_view no_proxy, const config::Url& url) {
  while (!no_proxy.empty()) {
    const size_t end = no_proxy.find_first_of(", ");
    if (IsExemptBy(no_proxy.substr(0, end), url)) return true;
    if (end == std::string_view::npos) break;
    no_proxy.remove_prefix(end + 1);
  }
  return false;
}

Result<std::optional<Proxy>> FindProxy(const config::Url& url, const Environment& environment) {
  if (!url.tls) return std::optional<Proxy>();
  std::string value = FirstOf(environment, "https_proxy", "HTTPS_PROXY");
  if (value.empty()) return std::optional<Proxy>();
  if (IsExempt(FirstOf(environment, "no_proxy", "NO_PROXY"), url)) return std::optional<Proxy>();
  Proxy proxy;
  if (value.find("://") == std::string::npos) value.insert(0, "http://");
  const size_t start = value.find("://") + 3;
  if (const size_t at = value.rfind('@'); at != std::string::npos && at > start) {
    proxy.authorization = fmt::format("Basic {}", EncodeBase64(value.substr(start, at - start)));
    value.erase(start, at + 1 - start);
  }
  const Result<config::Url> parsed = config::ParseUrl(value);
  if (!parsed || parsed->tls) {
    return MakeError(ErrorCode::kInvalidArgument, "upstream",
                     "HTTPS_PROXY must be like http://proxy.example:3128; proxies that are "
                     "themselves spoken to over TLS are not supported");
  }
  proxy.host = parsed->host;
  proxy.port = parsed->port;
  return std::optional<Proxy>(std::move(proxy));
}

}  // namespace kvgate::upstream::wire
