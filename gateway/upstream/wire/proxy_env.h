// Which proxy stands between here and an upstream: HTTPS_PROXY and NO_PROXY, as other tools read
// them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <kvgate/result.h>

#include "gateway/config/config.h"

namespace kvgate::upstream {

// The value of a variable; empty: not set.
using Environment = std::function<std::string(const char* name)>;
std::string ProcessEnvironment(const char* name);

struct Proxy {
  std::string host;
  uint16_t port = 0;
  std::string authorization;  // of Proxy-Authorization; empty: none
};

// Nothing: directly. https_proxy wins over HTTPS_PROXY; only TLS upstreams go through one (plain
// ones are in the house). kInvalidArgument: the variable's value, without what it holds.
Result<std::optional<Proxy>> FindProxy(const config::Url& url, const Environment& environment);

// "*", "example.com" and ".example.com" (with what is below them), "10.0.0.1", "host:port".
bool IsExempt(std::string_view no_proxy, const config::Url& url);

}  // namespace kvgate::upstream
