#include "gateway/http/message/request_guard.h"

#include <gtest/gtest.h>

namespace kvgate::http::message {
namespace {

int Status(const RequestGuard& guard, const GuardedHead& head) {
  const auto refusal = guard.Check(head);
  return refusal ? refusal->status : 200;
}

TEST(RequestGuardTest, OnlyKnownHostsAreAnswered) {
  const RequestGuard guard({"Gate.Example", "fd00::1"});
  const auto status = [&](std::string_view host) {
    return Status(guard, {.method = "GET", .host = host, .origin = {}, .content_type = {}});
  };
  for (const char* host :
       {"localhost", "LOCALHOST:1", "127.0.0.1:80", "[::1]", "gate.example:9", "[fd00::1]:80"}) {
    EXPECT_EQ(status(host), 200) << host;
  }
  for (const char* host : {"localhost.evil.example", "evil.example", "127.0.0.1.evil", "[::2]"}) {
    EXPECT_EQ(status(host), 421) << host;
  }
  EXPECT_EQ(status(""), 400);
}

TEST(RequestGuardTest, AnOriginMustBeThisServerItself) {
  const RequestGuard guard({});
  const auto status = [&](std::string_view origin) {
    return Status(
        guard, {.method = "GET", .host = "localhost:8080", .origin = origin, .content_type = {}});
  };
  EXPECT_EQ(status("http://localhost:8080"), 200);
  for (const char* origin : {"http://localhost:3000", "http://evil.example", "null", "file://"}) {
    EXPECT_EQ(status(origin), 403) << origin;
  }
}

TEST(RequestGuardTest, PostsMustBeJson) {
  const RequestGuard guard({});
  const auto status = [&](std::string_view type) {
    return Status(guard,
                  {.method = "POST", .host = "localhost", .origin = {}, .content_type = type});
  };
  EXPECT_EQ(status("application/json"), 200);
  EXPECT_EQ(status("Application/JSON ; charset=utf-8"), 200);
  for (const char* type : {"", "text/plain", "application/jsonx", "multipart/form-data"}) {
    EXPECT_EQ(status(type), 415) << type;
  }
}

TEST(RequestGuardTest, WhatPutsOrPatchesIsJsonWhereItSaysWhatItIs) {
  const RequestGuard guard({});
  for (const char* method : {"PUT", "PATCH"}) {
    const auto status = [&](std::string_view type) {
      return Status(guard,
                    {.method = method, .host = "localhost", .origin = {}, .content_type = type});
    };
    EXPECT_EQ(status("application/json"), 200);
    EXPECT_EQ(status(""), 200);
    EXPECT_EQ(status("text/plain"), 415);
  }
  EXPECT_EQ(Status(guard, {.method = "PATCH",
                           .host = "localhost",
                           .origin = {},
                           .content_type = "application/merge-patch+json"}),
            200);
}

TEST(RequestGuardTest, ARouteThatTakesBytesTakesNothingElse) {
  const RequestGuard guard({});
  const auto status = [&](std::string_view type) {
    return Status(guard, {.method = "POST",
                          .host = "localhost",
                          .origin = {},
                          .content_type = type,
                          .takes_bytes = true});
  };
  EXPECT_EQ(status("application/octet-stream"), 200);
  EXPECT_EQ(status("application/json"), 415);
  EXPECT_EQ(status("text/plain"), 415);
}

}  // namespace
}  // namespace kvgate::http::message
