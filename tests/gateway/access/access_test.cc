#include "gateway/access/access.h"

#include <gtest/gtest.h>

#include <optional>

namespace kvgate::access {
namespace {

constexpr Access kAll[] = {Access::kOpen, Access::kMetrics, Access::kUser, Access::kOwn,
                           Access::kAdmin};

// Returns the granted accesses as letters: O(pen), M(etrics), U(ser), o(wn), A(dmin).
std::string Granted(const CallerEvidence& evidence) {
  constexpr char kLetters[] = {'O', 'M', 'U', 'o', 'A'};
  std::string granted;
  for (const Access access : kAll) {
    if (CheckAccess(access, evidence)) granted += kLetters[static_cast<size_t>(access)];
  }
  return granted;
}

TEST(AccessTest, AKeysRoleDecides) {
  EXPECT_EQ(Granted({.has_keys = true}), "O");
  EXPECT_EQ(Granted({.has_keys = true, .key = CallerRole::kUser}), "OUo");
  EXPECT_EQ(Granted({.has_keys = true, .key = CallerRole::kAdmin}), "OMUoA");
  EXPECT_EQ(CheckAccess(Access::kUser, {.has_keys = true}).error().code,
            ErrorCode::kUnauthenticated);
  EXPECT_EQ(CheckAccess(Access::kAdmin, {.has_keys = true, .key = CallerRole::kUser}).error().code,
            ErrorCode::kPermissionDenied);
}

TEST(AccessTest, WithKeysLoopbackIsNobody) {
  EXPECT_EQ(Granted({.has_keys = true, .is_loopback = true}), "O");
  EXPECT_EQ(Granted({.has_keys = true, .shows_admin_token = true}), "OMUoA");
}

TEST(AccessTest, WithoutKeysLoopbackIsAdminUnlessForwarded) {
  EXPECT_EQ(Granted({.is_loopback = true}), "OMUoA");
  EXPECT_EQ(Granted({.is_loopback = true, .is_forwarded = true}), "OMUo");
  EXPECT_EQ(Granted({}), "OMUo") << "from elsewhere";
  EXPECT_EQ(Granted({.shows_admin_token = true, .is_loopback = true, .is_forwarded = true}),
            "OMUoA");
}

TEST(AccessTest, TheKeyOfMetricsReadsMetricsAlone) {
  const CallerEvidence scraper{
      .has_keys = true, .has_metrics_key = true, .shows_metrics_key = true};
  EXPECT_EQ(Granted(scraper), "OM");
  EXPECT_EQ(CheckAccess(Access::kUser, scraper).error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(Granted({.has_keys = true, .has_metrics_key = true, .key = CallerRole::kUser}), "OUo");
  // If there is only a metrics key, /metrics is no longer open to everybody.
  EXPECT_EQ(Granted({.has_metrics_key = true, .is_loopback = true, .is_forwarded = true}), "OUo");
  EXPECT_EQ(Granted({.has_metrics_key = true, .is_loopback = true}), "OMUoA");
}

TEST(AccessTest, WhatProxiesAddIsKnownWhateverItsCase) {
  for (const char* name :
       {"Forwarded", "X-Forwarded-For", "x-forwarded-host", "X-FORWARDED-PROTO", "X-Real-IP", "Via",
        "CF-Connecting-IP", "cf-ray", "True-Client-IP", "X-Client-IP", "X-Original-Forwarded-For",
        "Fly-Client-IP", "CDN-Loop", "X-Amzn-Trace-Id"}) {
    EXPECT_TRUE(IsForwardingHeader(name)) << name;
  }
  for (const char* name : {"Host", "User-Agent", "Authorization", "x-api-key", "x-stainless-os",
                           "X-Forwar", "forward", "anthropic-version", "", "viable"}) {
    EXPECT_FALSE(IsForwardingHeader(name)) << name;
  }
}

TEST(AccessTest, ATokenIsLongNewAndComparedWhole) {
  const std::string token = MakeAdminToken().value();
  EXPECT_EQ(token.size(), 64u);
  EXPECT_NE(token, MakeAdminToken().value());
  EXPECT_TRUE(IsSameSecret(token, token));
  EXPECT_FALSE(IsSameSecret(token.substr(1), token));
  EXPECT_FALSE(IsSameSecret("", token));
  EXPECT_FALSE(IsSameSecret("", "")) << "a server without a token knows no admin by it";
}

}  // namespace
}  // namespace kvgate::access
