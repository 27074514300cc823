// These tests run ClientStream under a whole server, for what its own operations add to those of a
// plain socket.
#include "gateway/http/socket/client_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gateway/http/test_certificate.h"
#include "tests/gateway/http/test_server.h"

namespace kvgate::http::socket {
namespace {

using test::TestCertificate;
using test::TlsClient;
using ::testing::HasSubstr;

Setup Secure(const TestCertificate& certificate, Script script = {}) {
  return {.script = std::move(script),
          .options = {
              .tls = {.cert_file = certificate.cert_file(), .key_file = certificate.key_file()}}};
}

TEST(ClientStreamTest, RequestsAndStreamsGoThroughTls) {
  const TestCertificate certificate;
  TestServer server(Secure(certificate));
  EXPECT_TRUE(server.server->url().starts_with("https://127.0.0.1:"));
  RawClient socket(server.port());
  TlsClient client(socket.fd());
  ASSERT_TRUE(client.connected());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.Send(Post("/v1/chat/completions", kChatStream)));
    EXPECT_THAT(client.ReadUntil("0\r\n\r\n"), HasSubstr("data: [DONE]"));
  }
}

TEST(ClientStreamTest, TheEndIsAFarewellAndNotACut) {
  const TestCertificate certificate;
  TestServer server(Secure(certificate));
  RawClient socket(server.port());
  TlsClient client(socket.fd());
  ASSERT_TRUE(client.Send(Get("/health", "Connection: close\r\n")));
  EXPECT_THAT(client.ReadUntil(""), HasSubstr(R"({"status":"ok"})"));
  EXPECT_TRUE(client.ended_well());
}

TEST(ClientStreamTest, ARefusedBodyIsDrainedBehindTheFarewell) {
  const TestCertificate certificate;
  auto setup = Secure(certificate);
  setup.host.requests.body_bytes_max = 1000;
  TestServer server(std::move(setup));
  RawClient socket(server.port());
  TlsClient client(socket.fd());
  ASSERT_TRUE(client.Send(Post("/v1/completions", std::string(500'000, 'x'))));
  EXPECT_THAT(client.ReadUntil(""), HasSubstr("HTTP/1.1 413 "));
  EXPECT_TRUE(client.ended_well());
}

TEST(ClientStreamTest, SessionsAreResumed) {
  const TestCertificate certificate;
  TestServer server(Secure(certificate));
  SSL_SESSION* session = nullptr;
  for (const bool resumed : {false, true}) {
    RawClient socket(server.port());
    TlsClient client(socket.fd(), session);
    ASSERT_TRUE(client.Send(Get("/health")));
    // This also reads the session tickets that come first.
    ASSERT_THAT(client.ReadUntil("ok\"}"), HasSubstr("200 OK"));
    EXPECT_EQ(client.resumed(), resumed);
    SSL_SESSION_free(session);
    session = client.session();
  }
  SSL_SESSION_free(session);
}

TEST(ClientStreamTest, AClientThatLeavesEndsItsAnswer) {
  const TestCertificate certificate;
  TestServer server(Secure(certificate, {.first_delay = milliseconds(60'000)}));
  {
    RawClient socket(server.port());
    TlsClient client(socket.fd());
    ASSERT_TRUE(client.Send(Post("/v1/chat/completions", kChat)));
    EXPECT_TRUE(test::WaitUntil([&] { return server.gateway.engine.num_running() == 1; },
                                "it is answered"));
    EXPECT_EQ(server.server->num_connections(), 1u);
  }
  EXPECT_TRUE(test::WaitUntil([&] { return server.server->num_connections() == 0; },
                              "the connections end"));
}

TEST(ClientStreamTest, AHandshakeHasItsTimeAndNoMore) {
  const TestCertificate certificate;
  auto setup = Secure(certificate);
  setup.options.header_timeout = milliseconds(200);
  TestServer server(std::move(setup));
  RawClient silent(server.port());
  RawClient begun(server.port());
  ASSERT_TRUE(begun.Send("\x16\x03\x01"));
  EXPECT_EQ(silent.ReadAll() + begun.ReadAll(), "");
  EXPECT_TRUE(test::WaitUntil([&] { return server.server->num_connections() == 0; },
                              "the connections end"));
  EXPECT_EQ(server.gateway.metrics.tls_handshake_failures.value(), 1u);
}

TEST(ClientStreamTest, PlainHttpIsToldSo) {
  const TestCertificate certificate;
  TestServer server(Secure(certificate));
  const RawResponse response = Exchange(server, Get("/health"));
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.headers.at("content-type"), "text/plain; charset=utf-8");
  EXPECT_THAT(response.body, HasSubstr("HTTPS"));
}

}  // namespace
}  // namespace kvgate::http::socket
