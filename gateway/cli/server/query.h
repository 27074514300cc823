// Query: the fields behind the "?" of a URL.
#pragma once

#include <string>
#include <string_view>

namespace kvgate::cli::server {

// Every byte but letters, digits and "-._~" as %XX, so that it is one part of a path or a query.
std::string Escaped(std::string_view text);

class Query {
 public:
  void Add(std::string_view field, std::string_view value);
  // "/path", or "/path?a=1&b=2".
  std::string On(std::string_view path) const;

 private:
  std::string fields_;
};

}  // namespace kvgate::cli::server
