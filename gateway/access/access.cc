#include "gateway/access/access.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <system_error>

#include "base/digest.h"
#include "gateway/upstream/wire/header_rules.h"

namespace kvgate::access {
namespace {

constexpr std::string_view kSource = "access";

// The prefixes cover X-Forwarded-For, -Host, -Proto, -Port, -Server, -Prefix and other variants.
constexpr std::string_view kForwardingPrefixes[] = {"x-forwarded",       "cf-",     "x-original-",
                                                    "x-envoy-external-", "x-amzn-", "x-azure-"};
constexpr std::string_view kForwardingNames[] = {"forwarded",
                                                 "forwarded-for",
                                                 "via",
                                                 "x-via",
                                                 "x-real-ip",
                                                 "true-client-ip",
                                                 "client-ip",
                                                 "x-client-ip",
                                                 "x-cluster-client-ip",
                                                 "x-remote-ip",
                                                 "x-remote-addr",
                                                 "x-originating-ip",
                                                 "x-proxyuser-ip",
                                                 "x-appengine-user-ip",
                                                 "x-nf-client-connection-ip",
                                                 "x-vercel-forwarded-for",
                                                 "fastly-client-ip",
                                                 "fly-client-ip",
                                                 "do-connecting-ip",
                                                 "wl-proxy-client-ip",
                                                 "proxy-client-ip",
                                                 "cdn-loop",
                                                 "x-varnish",
                                                 "x-nginx-proxy",
                                                 "tailscale-user-login",
                                                 "ngrok-auth-user-email"};

}  // namespace

CallerRole ParseRole(std::string_view text) {
  return text == "admin" ? CallerRole::kAdmin : CallerRole::kUser;
}

std::string_view AccessName(Access access) {
  static constexpr std::string_view kNames[] = {"open", "metrics", "user", "own", "admin"};
  return kNames[static_cast<size_t>(access)];
}

CallerRole RoleOf(const CallerEvidence& evidence) {
  if (evidence.shows_admin_token) return CallerRole::kAdmin;
  if (evidence.key) return *evidence.key;
  if (evidence.shows_metrics_key) return CallerRole::kMetrics;
  if (evidence.has_keys) return CallerRole::kNobody;
  const bool is_local = evidence.is_loopback && !evidence.is_forwarded;
  return is_local ? CallerRole::kAdmin : CallerRole::kUser;
}

Result<void> CheckAccess(Access access, const CallerEvidence& evidence) {
  const CallerRole role = RoleOf(evidence);
  if (access == Access::kOpen || role == CallerRole::kAdmin) return {};
  const bool is_keyless = !evidence.has_keys && !evidence.has_metrics_key;
  if (access == Access::kMetrics && (is_keyless || evidence.shows_metrics_key)) return {};
  if (role == CallerRole::kNobody) {
    return MakeError(ErrorCode::kUnauthenticated, kSource,
                     "This gateway takes only its own keys, by Authorization: Bearer, x-api-key or "
                     "x-kvgate-key.");
  }
  if (role == CallerRole::kMetrics) {
    return MakeError(ErrorCode::kPermissionDenied, kSource, "This key reads /metrics only.");
  }
  if (access == Access::kUser || access == Access::kOwn) return {};
  return MakeError(ErrorCode::kPermissionDenied, kSource,
                   access == Access::kMetrics
                       ? "This needs a key of the role admin, or the key of [metrics]."
                       : "This needs the role admin.");
}

bool IsForwardingHeader(std::string_view name) {
  const auto begins = [&](std::string_view prefix) {
    return name.size() >= prefix.size() &&
           upstream::wire::SameBytes(name.substr(0, prefix.size()), prefix);
  };
  return std::any_of(std::begin(kForwardingPrefixes), std::end(kForwardingPrefixes), begins) ||
         std::any_of(std::begin(kForwardingNames), std::end(kForwardingNames),
                     [&](std::string_view known) { return upstream::wire::SameName(name, known); });
}

Result<std::string> MakeAdminToken() {
  std::array<uint8_t, 32> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return MakeError(ErrorCode::kIo, kSource,
                     fmt::format("asking the system for random numbers: {}",
                                 std::generic_category().message(errno)));
  }
  return ToHex(bytes);
}

bool IsSameSecret(std::string_view shown, std::string_view secret) {
  if (secret.empty()) return false;
  // Digests have one length for any input, so the loop takes the same time for all secrets.
  const PrefixDigest a = ThreadSha256().Update(shown).Finish();
  const PrefixDigest b = ThreadSha256().Update(secret).Finish();
  unsigned difference = 0;
  for (size_t i = 0; i < a.bytes.size(); ++i) {
    difference |= static_cast<unsigned>(a.bytes[i] ^ b.bytes[i]);
  }
  return difference == 0;
}

}  // namespace kvgate::access
