#include "gateway/cli/server/query.h"

#include <fmt/format.h>

namespace kvgate::cli::server {

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char byte : text) {
    const bool is_plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                          (byte >= '0' && byte <= '9') ||
                          std::string_view("-._~").find(byte) != std::string_view::npos;
    if (is_plain) {
      escaped += byte;
    } else {
      escaped += fmt::format("%{:02X}", static_cast<unsigned char>(byte));
    }
  }
  return escaped;
}

void Query::Add(std::string_view field, std::string_view value) {
  fields_ += fields_.empty() ? '?' : '&';
  fields_ += Escaped(field) + "=" + Escaped(value);
}

std::string Query::On(std::string_view path) const { return std::string(path) + fields_; }

}  // namespace kvgate::cli::server
