// This file decides, in one place, who a caller is and what a route requires of them. It knows no
// sockets.
//
// Keys have a role. The machine's own command line is admin by a token that only the owner of the
// data directory can read. Without keys a caller on loopback is admin, unless a header shows that
// the request was forwarded for somebody else. A caller who is not admin sees only their own
// things; those of others look to them as if they did not exist.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvgate::access {

enum class CallerRole : uint8_t {
  kNobody,   // there are keys, and this caller has none of them
  kMetrics,  // has the key of [metrics] and no other key
  kUser,
  kAdmin,
};
// Reads a role as [[key]] spells it: "admin" is an admin, any other text a user.
CallerRole ParseRole(std::string_view text);

// The access that a route requires of its caller. The router's table names one for each route.
enum class Access : uint8_t {
  kOpen,     // anyone, because probes hold no key
  kMetrics,  // admins and the key of [metrics]; anyone if no keys are configured
  kUser,     // anyone let in; the route touches nothing that belongs to others
  kOwn,      // as kUser, for things that have owners: a user does not see those of others
  kAdmin,    // admins only: things of others, or settings that hold for everyone
};
std::string_view AccessName(Access access);

// The facts that a request reveals about its caller.
struct CallerEvidence {
  bool has_keys = false;               // the gateway has at least one [[key]]
  bool has_metrics_key = false;        // the [metrics] section names a key
  std::optional<CallerRole> key = {};  // the role of the caller's key; absent if it matches none
  bool shows_metrics_key = false;
  bool shows_admin_token = false;
  bool is_loopback = false;
  bool is_forwarded = false;  // see IsForwardingHeader
};
CallerRole RoleOf(const CallerEvidence& evidence);

// Returns kUnauthenticated if the caller is not let in at all, and kPermissionDenied if it is let
// in but may not use this route.
Result<void> CheckAccess(Access access, const CallerEvidence& evidence);

// Returns true if proxies add a header of that name to requests that they pass on.
bool IsForwardingHeader(std::string_view name);

// The caller that a request is answered for.
struct Caller {
  CallerRole role = CallerRole::kNobody;
  std::string credential = {};  // as sent; TenantOf derives the tenant from it; empty: none
  std::string tenant = {};      // the name in the ledger
  bool is_admin() const { return role == CallerRole::kAdmin; }
};

// Returns 64 hex digits from the system's random numbers, which the command line then presents.
Result<std::string> MakeAdminToken();
// The time it takes does not depend on the position of a difference. An empty secret equals
// nothing.
bool IsSameSecret(std::string_view shown, std::string_view secret);

}  // namespace kvgate::access
