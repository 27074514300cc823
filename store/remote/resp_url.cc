#include "store/remote/resp_url.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/hex.h"

namespace kvgate::store::remote {
namespace {

constexpr size_t kUrlBytesMax = 4096;
constexpr size_t kEndpointsMax = 32;
constexpr size_t kHostBytesMax = 253;  // of a name in the DNS
constexpr int kDatabaseMax = 99'999;

struct Scheme {
  std::string_view name;
  bool has_tls;
};
constexpr Scheme kSchemes[] = {
    {"redis://", false}, {"rediss://", true}, {"valkey://", false}, {"valkeys://", true}};

// A number of decimal digits alone, at most `max`.
std::optional<int> ReadNumber(std::string_view text, int max) {
  int value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = !text.empty() && code == std::errc() && end == text.data() + text.size();
  if (!is_number || text.front() == '-' || value > max) return std::nullopt;
  return value;
}

std::optional<std::string> DecodePercents(std::string_view text) {
  std::string decoded;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      decoded += text[at];
      continue;
    }
    if (at + 2 >= text.size()) return std::nullopt;
    const int high = HexDigit(text[at + 1]);
    const int low = HexDigit(text[at + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    at += 2;
  }
  return decoded;
}

bool IsHostName(std::string_view host) {
  return !host.empty() && host.size() <= kHostBytesMax && std::ranges::all_of(host, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
}

// The parts of one URL, each of which is an error of the same field.
class UrlReader {
 public:
  explicit UrlReader(std::string_view field) : field_(field) {}

  Result<RespAddress> Read(std::string_view url) const {
    RespAddress address;
    if (url.size() > kUrlBytesMax) {
      return Failed(fmt::format("it is longer than {} bytes", kUrlBytesMax));
    }
    const auto* scheme = std::ranges::find_if(
        kSchemes, [&](const Scheme& known) { return url.starts_with(known.name); });
    if (scheme == std::end(kSchemes)) {
      return Failed("it must begin with redis://, rediss:// (TLS), valkey:// or valkeys:// (TLS)");
    }
    address.has_tls = scheme->has_tls;
    url.remove_prefix(scheme->name.size());
    if (url.find_first_of("?#") != std::string_view::npos) return Failed("it may have no ? and #");
    // The last one, so that a part of a password with this sign is not taken for a host.
    if (const size_t at = url.rfind('@'); at != std::string_view::npos) {
      KVGATE_TRY(address.user, ReadUser(url.substr(0, at)));
      url.remove_prefix(at + 1);
    }
    if (const size_t slash = url.find('/'); slash != std::string_view::npos) {
      const std::string_view digits = url.substr(slash + 1);
      const std::optional<int> database =
          digits.empty() ? std::optional<int>(0) : ReadNumber(digits, kDatabaseMax);
      if (!database) {
        return Failed(fmt::format("what follows the / must be the number of a database, 0 to {}",
                                  kDatabaseMax));
      }
      address.database = *database;
      url = url.substr(0, slash);
    }
    KVGATE_TRY(address.endpoints, ReadEndpoints(url));
    return address;
  }

 private:
  Error Failed(std::string_view why) const {
    return MakeError(
        ErrorCode::kInvalidArgument, "store.remote",
        fmt::format("the URL of the store in {}: {} (redis://[USER@]HOST[:PORT][,HOST[:PORT]]..."
                    "[/DATABASE])",
                    field_, why),
        std::string(field_));
  }

  Result<std::string> ReadUser(std::string_view text) const {
    if (text.find(':') != std::string_view::npos) {
      return Failed("it holds a password; put that into the environment, not here");
    }
    std::optional<std::string> user = DecodePercents(text);
    if (!user || user->empty() ||
        std::ranges::any_of(*user, [](unsigned char c) { return c <= ' ' || c == 0x7f; })) {
      return Failed("what stands before the @ must be a user's name, without spaces");
    }
    if (text.find_first_of("/@") != std::string_view::npos) {
      return Failed("a / or @ in the user's name is written %2F or %40");
    }
    return *std::move(user);
  }

  Result<std::vector<RespEndpoint>> ReadEndpoints(std::string_view list) const {
    std::vector<RespEndpoint> endpoints;
    while (true) {
      const size_t comma = list.find(',');
      KVGATE_TRY(RespEndpoint endpoint, ReadEndpoint(list.substr(0, comma)));
      endpoints.push_back(std::move(endpoint));
      if (endpoints.size() > kEndpointsMax) {
        return Failed(fmt::format("it names more than {} hosts", kEndpointsMax));
      }
      if (comma == std::string_view::npos) return endpoints;
      list.remove_prefix(comma + 1);
    }
  }

  Result<RespEndpoint> ReadEndpoint(std::string_view text) const {
    RespEndpoint endpoint;
    std::string_view rest;
    if (text.starts_with('[')) {
      const size_t end = text.find(']');
      if (end != std::string_view::npos) {
        endpoint.host = std::string(text.substr(1, end - 1));
        rest = text.substr(end + 1);
      }
      if (endpoint.host.find(':') == std::string::npos || !IsIpAddress(endpoint.host)) {
        return Failed("what stands in brackets must be an IPv6 address");
      }
    } else {
      const size_t colon = std::min(text.find(':'), text.size());
      endpoint.host = std::string(text.substr(0, colon));
      rest = text.substr(colon);
      if (!IsHostName(endpoint.host)) {
        return Failed("a host must be a name or an address; one of IPv6 stands in brackets");
      }
    }
    if (rest.empty()) return endpoint;
    const std::optional<int> port = ReadNumber(rest.substr(1), 65'535);
    if (!rest.starts_with(':') || !port || *port == 0) {
      return Failed("what follows a host's : must be its port, 1 to 65535");
    }
    endpoint.port = static_cast<uint16_t>(*port);
    return endpoint;
  }

  const std::string_view field_;
};

}  // namespace

std::string RespEndpoint::ToString() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

bool IsIpAddress(const std::string& host) {
  in6_addr address{};
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

Result<RespAddress> ParseRespUrl(std::string_view url, std::string_view field) {
  return UrlReader(field).Read(url);
}

}  // namespace kvgate::store::remote
