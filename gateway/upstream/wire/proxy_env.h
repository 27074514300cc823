// Chooses the proxy for an upstream from HTTPS_PROXY and NO_PROXY, read as other tools read them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/config/config.h"

namespace kvgate::upstream::wire {

// The value of an environment variable; empty if it is not set.
using Environment = std::function<std::string(const char* name)>;
std::string ProcessEnvironment(const char* name);

struct Proxy {
  std::string host;
  uint16_t port = 0;
  std::string authorization;  // the Proxy-Authorization value; empty: none
};

// Returns nullopt for a direct connection. https_proxy wins over HTTPS_PROXY. Only TLS upstreams
// use a proxy; plain ones are assumed to be on the local network. Fails with kInvalidArgument,
// without showing the variable's value, if that is invalid.
Result<std::optional<Proxy>> FindProxy(const config::Url& url, const Environment& environment);

// Accepts "*", "example.com" and ".example.com" (both with subdomains), "10.0.0.1" and "host:port".
bool IsExempt(std::string_view no_proxy, const config::Url& url);

}  // namespace kvgate::upstream::wire
