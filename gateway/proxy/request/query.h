// The query of a request's target: the part behind the "?", without a fragment. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvgate::proxy::request {

// The bytes behind the "?"; empty if there are none.
std::string_view QueryOf(std::string_view target);

// The parameters of a query, percent-decoded, in its order.
using QueryParameters = std::vector<std::pair<std::string, std::string>>;
QueryParameters ParametersOf(std::string_view target);

// The value of a query parameter, percent-decoded; empty if it is missing.
std::string QueryValue(std::string_view target, std::string_view name);

// Decodes "%2F" to '/'; malformed escapes stay as they are.
std::string PercentDecode(std::string_view text);

}  // namespace kvgate::proxy::request
