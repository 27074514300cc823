// Access: who a caller is and what a route asks of them, decided in one place. It knows no sockets.
//
// Rules: keys have a role. The machine's own command line is admin by a token that only the data
// directory's owner can read. Without keys a caller on loopback is admin, unless a header shows
// that somebody else's request has been forwarded. Whoever is no admin sees what is their own;
// what is others' is to them as if it were not there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <kvgate/result.h>

namespace kvgate::service {

enum class CallerRole : uint8_t {
  kNobody,   // there are keys, and this caller has none of them
  kMetrics,  // has the key of [metrics] and no other
  kUser,
  kAdmin,
};
// "user", "admin" as [[key]] spells them; other texts are a user's.
CallerRole ParseRole(std::string_view text);

// What a route asks of its caller. The router's table has one for each route.
enum class Access : uint8_t {
  kOpen,     // anyone: probes hold no key
  kMetrics,  // admins and the key of [metrics]; anyone where there are no keys at all
  kUser,     // whoever is let in; it makes or reads nothing that others have
  kOwn,      // the same, of things that have owners: others' are absent to a user
  kAdmin,    // admins: others' things, what holds for all of them
};
std::string_view AccessName(Access access);

// What a request shows of its caller.
struct CallerEvidence {
  bool has_keys = false;               // the gateway has any
  bool has_metrics_key = false;        // the gateway has one
  std::optional<CallerRole> key = {};  // of the key that the caller has
  bool shows_metrics_key = false;
  bool shows_admin_token = false;
  bool is_loopback = false;
  bool is_forwarded = false;  // see IsForwardingHeader
};
CallerRole RoleOf(const CallerEvidence& evidence);

// kUnauthenticated: not let in; kPermissionDenied: let in, and not for this.
Result<void> CheckAccess(Access access, const CallerEvidence& evidence);

// Whether a header of that name is what proxies add to requests that they pass on.
bool IsForwardingHeader(std::string_view name);

// Whose request it is, for whatever answers it.
struct Caller {
  CallerRole role = CallerRole::kNobody;
  std::string credential = {};  // what TenantOf makes a salt of; empty: none
  std::string tenant = {};      // in the ledger
  bool is_admin() const { return role == CallerRole::kAdmin; }
};

// 64 hex digits from the system's random numbers, to be shown by the command line.
Result<std::string> MakeAdminToken();
// In a time that does not depend on where they differ; nothing is the same as an empty secret.
bool IsSameSecret(std::string_view shown, std::string_view secret);

}  // namespace kvgate::service
