// Values that are written as text: sizes, addresses, paths.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>

#include "gateway/config/config.h"

namespace kvgate::config {
namespace {

struct Unit {
  std::string_view suffix;
  uint64_t bytes;
};

constexpr std::array<Unit, 10> kUnits = {{{"", 1},
                                          {"B", 1},
                                          {"KiB", uint64_t{1} << 10},
                                          {"MiB", uint64_t{1} << 20},
                                          {"GiB", uint64_t{1} << 30},
                                          {"TiB", uint64_t{1} << 40},
                                          {"KB", 1'000},
                                          {"MB", 1'000'000},
                                          {"GB", 1'000'000'000},
                                          {"TB", 1'000'000'000'000}}};

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::filesystem::path DefaultDataDir() {
  if (const std::string home = Environment("XDG_DATA_HOME"); !home.empty()) {
    return std::filesystem::path(home) / "kvgate";
  }
  const std::string home = Environment("HOME");
  return std::filesystem::path(home.empty() ? "." : home) / ".local" / "share" / "kvgate";
}

Result<uint64_t> ParseBytes(std::string_view text) {
  const auto bad = [&] {
    return MakeError(ErrorCode::kInvalidArgument, "config",
                     fmt::format("must be a size like \"1GiB\", \"500MB\" or a number of bytes, "
                                 "not \"{}\"",
                                 text));
  };
  uint64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc()) return bad();
  std::string_view suffix(end, static_cast<size_t>(text.data() + text.size() - end));
  while (!suffix.empty() && suffix.front() == ' ') suffix.remove_prefix(1);
  for (const Unit& unit : kUnits) {
    if (unit.suffix != suffix) continue;
    if (number > std::numeric_limits<uint64_t>::max() / unit.bytes) return bad();
    return number * unit.bytes;
  }
  return bad();
}

bool HostPort::is_loopback() const {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

Result<HostPort> ParseHostPort(std::string_view text) {
  const auto bad = [&] {
    return MakeError(ErrorCode::kInvalidArgument, "config",
                     fmt::format("must be ADDRESS:PORT like 127.0.0.1:8080, not \"{}\"", text));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad();
  std::string_view host = text.substr(0, colon);
  const std::string_view port_text = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad();
  }
  uint16_t port = 0;
  const auto [end, code] =
      std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  const bool whole = code == std::errc() && end == port_text.data() + port_text.size();
  if (host.empty() || !whole) return bad();
  return HostPort{.host = std::string(host), .port = port};
}

}  // namespace kvgate::config
