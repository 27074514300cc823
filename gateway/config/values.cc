// Values that are written as text: sizes, addresses, paths.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <utility>

#include "gateway/config/config.h"

namespace kvgate::config {
namespace {

constexpr std::array<std::pair<std::string_view, int64_t>, 4> kTimes = {
    {{"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86'400}}};

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

Result<int64_t> ParseSeconds(std::string_view text) {
  int64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view suffix(end, static_cast<size_t>(text.data() + text.size() - end));
  for (const auto& [unit, seconds] : kTimes) {
    const bool fits = number >= 0 && number <= std::numeric_limits<int64_t>::max() / seconds;
    if (code == std::errc() && suffix == unit && fits) return number * seconds;
  }
  return MakeError(
      ErrorCode::kInvalidArgument, "config",
      fmt::format("must be a time like \"30d\", \"12h\", \"90m\" or \"45s\", not \"{}\"", text));
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

Result<Url> ParseUrl(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return MakeError(
        ErrorCode::kInvalidArgument, "config",
        fmt::format("must be a URL like https://api.example.com/v1, not \"{}\": {}", text, why));
  };
  Url url;
  std::string_view rest = text;
  if (rest.starts_with("https://")) {
    url.tls = true;
  } else if (!rest.starts_with("http://")) {
    return bad("it begins with http:// or https://");
  }
  rest.remove_prefix(url.tls ? 8 : 7);
  // Characters that could end the request line are refused.
  for (const char c : rest) {
    if (c <= ' ' || c == 0x7f || c == '"' || c == '\\') return bad("it has an unsafe character");
  }
  const size_t slash = rest.find('/');
  std::string_view authority = rest.substr(0, slash);
  if (slash != std::string_view::npos) url.path = rest.substr(slash);
  while (url.path.ends_with('/')) url.path.pop_back();
  if (rest.find_first_of("?#") != std::string_view::npos) return bad("it has a query");
  if (authority.find('@') != std::string_view::npos) return bad("it holds a user name");
  // The colons of "[::1]" do not separate a port.
  const bool has_port = !authority.ends_with(']') && authority.find(':') != std::string_view::npos;
  const std::string full =
      has_port ? std::string(authority) : fmt::format("{}:{}", authority, url.tls ? 443 : 80);
  const Result<HostPort> parsed = ParseHostPort(full);
  if (!parsed || parsed->port == 0) return bad("its host or port cannot be read");
  url.host = parsed->host;
  url.port = parsed->port;
  return url;
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
