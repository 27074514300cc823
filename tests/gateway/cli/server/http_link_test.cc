#include "gateway/cli/server/http_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

#include "gateway/cli/server/http_client.h"
#include "tests/gateway/fakes.h"
#include "tests/gateway/http/hosted_server.h"
#include "tests/gateway/http/test_certificate.h"
#include "tests/wait_until.h"

namespace kvgate::cli::server {
namespace {

using test::TestCertificate;
using ::testing::HasSubstr;

struct Fixture {
  HttpLink::Target target() const {
    return {.tls = true, .host = "127.0.0.1", .port = std::to_string(server->port())};
  }
  TestCertificate certificate;
  test::Gateway gateway;
  http::HostedServer hosted{
      gateway.service,
      {.tls = {.cert_file = certificate.cert_file(), .key_file = certificate.key_file()}}};
  http::Server* server = hosted.server.get();
};

TEST(HttpLinkTest, AServerIsKnownByItsCertificatesDigest) {
  const Fixture fixture;
  const auto reply = FetchOk({.url = fixture.server->url() + "/health",
                              .certificate_sha256 = fixture.server->certificate_sha256()});
  ASSERT_TRUE(reply) << reply.error().detail;
  EXPECT_EQ(*reply, R"({"status":"ok"})");
  const auto other = FetchOk(
      {.url = fixture.server->url() + "/health", .certificate_sha256 = std::string(64, '0')});
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().detail, HasSubstr("shows another certificate"));
}

TEST(HttpLinkTest, WithoutADigestTheMachinesRootsDecide) {
  const Fixture fixture;
  const auto link = HttpLink::Connect(fixture.target());
  ASSERT_FALSE(link);
  EXPECT_EQ(link.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(link.error().detail, HasSubstr("not trusted"));
}

TEST(HttpLinkTest, AWaitEndsByItselfAndAGoneServerIsAnError) {
  Fixture fixture;
  HttpLink::Target target = fixture.target();
  target.certificate_sha256 = fixture.server->certificate_sha256();
  const auto link = HttpLink::Connect(target);
  ASSERT_TRUE(link);
  std::array<char, 100> bytes;
  EXPECT_EQ((*link)->Receive(bytes), std::nullopt);
  ASSERT_TRUE((*link)->Send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  std::optional<size_t> size;
  ASSERT_TRUE(test::WaitUntil(
      [&] {
        size = (*link)->Receive(bytes);
        return size.has_value();
      },
      "the server answers"));
  EXPECT_THAT(std::string(bytes.data(), *size), HasSubstr("200 OK"));
  fixture.hosted.server.reset();
  // The link gives the bytes sent before the end, then the end; no signal ends the process.
  ASSERT_TRUE(test::WaitUntil(
      [&] {
        size = (*link)->Receive(bytes);
        return size.has_value() && *size == 0;
      },
      "the link tells of the end"));
  for (int i = 0; i < 100 && (*link)->Send(std::string(100'000, 'x')); ++i) {
  }
  EXPECT_FALSE((*link)->Send("x"));
}

}  // namespace
}  // namespace kvgate::cli::server
