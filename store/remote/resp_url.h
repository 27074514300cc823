// Where a store that speaks the Redis protocol is: its endpoints, and the URL that names them.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvgate::store::remote {

struct RespEndpoint {
  std::string host;  // a name or an address; IPv6 without brackets
  uint16_t port = 6379;
  friend auto operator<=>(const RespEndpoint&, const RespEndpoint&) = default;

  // "store:6379", "[::1]:6379"
  std::string ToString() const;
};

// True for an address of IPv4 or IPv6, which needs no resolver.
bool IsIpAddress(const std::string& host);

// Where the store is: what its URL says.
struct RespAddress {
  std::vector<RespEndpoint> endpoints;  // tried in this order; not empty
  bool has_tls = false;
  std::string user = {};  // of an ACL; empty means the server's default user
  int database = 0;       // a cluster has only 0
  friend bool operator==(const RespAddress&, const RespAddress&) = default;
};

// Parses redis://[USER@]HOST[:PORT][,HOST[:PORT]]...[/DATABASE]; rediss:// means TLS, valkey:// and
// valkeys:// mean the same two. An IPv6 address stands in brackets; a user's name may have %XX.
// Fails with kInvalidArgument, naming `field`. A password in the URL is refused: secrets come from
// the environment. No part of the URL is repeated in an error, because any may hold a password that
// was put in the wrong place.
Result<RespAddress> ParseRespUrl(std::string_view url, std::string_view field);

}  // namespace kvgate::store::remote
