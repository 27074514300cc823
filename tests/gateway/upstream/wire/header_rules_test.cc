#include "gateway/upstream/wire/header_rules.h"

#include <gtest/gtest.h>

namespace kvgate::upstream::wire {
namespace {

TEST(RequestHeadTest, PassesHeadersInTheirOrderAndSpelling) {
  const HeaderFields fields = {{"hOsT", "localhost:8080"}, {"X-Stainless-OS", "Linux"},
                               {"anthropic-beta", "b,a"},  {"Content-Length", "12"},
                               {"x-kvgate-session", "s"},  {"Authorization", "Bearer mine"},
                               {"anthropic-Beta", "c"}};
  EXPECT_EQ(RequestHead({.method = "POST",
                         .target = "/v1/messages?beta=true",
                         .host = "up:1",
                         .fields = fields,
                         .body_bytes = 12}),
            "POST /v1/messages?beta=true HTTP/1.1\r\n"
            "hOsT: up:1\r\nX-Stainless-OS: Linux\r\nanthropic-beta: b,a\r\nContent-Length: 12\r\n"
            "Authorization: Bearer mine\r\nanthropic-Beta: c\r\n\r\n");
}

TEST(RequestHeadTest, DropsWhatBelongsToTheConnection) {
  const HeaderFields fields = {{"Connection", "close, X-Hop , content-length"},
                               {"x-hop", "1"},
                               {"Keep-Alive", "timeout=5"},
                               {"TE", "trailers"},
                               {"Transfer-Encoding", "chunked"},
                               {"Proxy-Authorization", "secret"},
                               {"Upgrade", "h2c"},
                               {"Expect", "100-continue"},
                               {"X-Kept", "1"}};
  EXPECT_EQ(RequestHead(
                {.method = "POST", .target = "/", .host = "up", .fields = fields, .body_bytes = 7}),
            "POST / HTTP/1.1\r\nX-Kept: 1\r\nHost: up\r\nContent-Length: 7\r\n\r\n");
}

TEST(RequestHeadTest, TheLengthIsTheBodysHoweverItWasSpelled) {
  const HeaderFields fields = {{"content-length", "010"}, {"Content-Length", "10"}};
  EXPECT_EQ(
      RequestHead(
          {.method = "POST", .target = "/", .host = "up", .fields = fields, .body_bytes = 10}),
      "POST / HTTP/1.1\r\ncontent-length: 10\r\nHost: up\r\n\r\n");
}

TEST(RequestHeadTest, TheUpstreamsOwnKeyStandsWhereTheCallersStood) {
  const HeaderFields fields = {{"x-api-key", "mine"}, {"authorization", "Bearer mine"}, {"a", "b"}};
  EXPECT_EQ(
      RequestHead({.method = "GET", .target = "/", .host = "u", .fields = fields, .api_key = "K"}),
      "GET / HTTP/1.1\r\nAuthorization: Bearer K\r\na: b\r\nHost: u\r\n\r\n");
  EXPECT_EQ(RequestHead({.method = "GET",
                         .target = "/",
                         .host = "u",
                         .fields = fields,
                         .api_key = "K",
                         .dialect = dialect::form::Api::kAnthropic}),
            "GET / HTTP/1.1\r\nx-api-key: K\r\na: b\r\nHost: u\r\n\r\n");
}

TEST(RequestHeadTest, EachApiHasItsOwnHeaderForACredential) {
  const HeaderFields fields = {{"X-Goog-Api-Key", "mine"}};
  const auto head = [&](dialect::form::Api api) {
    return RequestHead({.method = "GET",
                        .target = "/",
                        .host = "u",
                        .fields = fields,
                        .api_key = "K",
                        .dialect = api});
  };
  EXPECT_EQ(head(dialect::form::Api::kGemini),
            "GET / HTTP/1.1\r\nX-Goog-Api-Key: K\r\nHost: u\r\n\r\n");
  EXPECT_EQ(head(dialect::form::Api::kAnthropic),
            "GET / HTTP/1.1\r\nx-api-key: K\r\nHost: u\r\n\r\n");
  EXPECT_EQ(head(dialect::form::Api::kOpenAi),
            "GET / HTTP/1.1\r\nAuthorization: Bearer K\r\nHost: u\r\n\r\n");
}

TEST(RequestHeadTest, AGatewayKeyNeverLeaves) {
  const HeaderFields fields = {
      {"Authorization", "Bearer gateway"}, {"X-Api-Key", "gateway"}, {"x-goog-api-key", "gateway"}};
  EXPECT_EQ(
      RequestHead(
          {.method = "GET", .target = "/", .host = "u", .fields = fields, .drop_credential = true}),
      "GET / HTTP/1.1\r\nHost: u\r\n\r\n");
}

TEST(ForwardedHeadTest, PassesWhatProvidersSayAndDropsFraming) {
  const HeaderFields fields = {{"Content-Type", "text/event-stream"},
                               {"Transfer-Encoding", "chunked"},
                               {"connection", "keep-alive"},
                               {"retry-after", "3"},
                               {"x-should-retry", "true"},
                               {"request-id", "req_1"},
                               {"x-kvgate-request-id", "another gateway's"},
                               {"set-cookie", "a"},
                               {"set-cookie", "b"}};
  EXPECT_EQ(ForwardedHead({.status = 529,
                           .reason = "Overloaded",
                           .fields = fields,
                           .request_id = "id",
                           .chunked = true}),
            "HTTP/1.1 529 Overloaded\r\nContent-Type: text/event-stream\r\nretry-after: 3\r\n"
            "x-should-retry: true\r\nrequest-id: req_1\r\nset-cookie: a\r\nset-cookie: b\r\n"
            "x-kvgate-request-id: id\r\ntransfer-encoding: chunked\r\n\r\n");
  EXPECT_EQ(ForwardedHead({.status = 200,
                           .reason = "",
                           .fields = {},
                           .request_id = "id",
                           .keep_alive = false,
                           .http_1_0 = true}),
            "HTTP/1.0 200 \r\nx-kvgate-request-id: id\r\nconnection: close\r\n\r\n");
}

TEST(ForwardedHeadTest, ItSaysWhatBecameOfTheWindowOfASession) {
  const HeaderFields fields = {{"x-kvgate-compaction", "another gateway's"}};
  EXPECT_EQ(ForwardedHead({.status = 200,
                           .reason = "OK",
                           .fields = fields,
                           .request_id = "id",
                           .compaction = "none"}),
            "HTTP/1.1 200 OK\r\nx-kvgate-request-id: id\r\nx-kvgate-compaction: none\r\n\r\n");
}

TEST(ForwardedHeadTest, ALengthIsSaidOnceAndNotBesideChunksOrWithA204) {
  const HeaderFields fields = {{"Content-Length", "2, 2"}, {"content-length", "2"}};
  EXPECT_EQ(ForwardedHead({.status = 200, .reason = "OK", .fields = fields, .request_id = "id"}),
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nx-kvgate-request-id: id\r\n\r\n");
  EXPECT_EQ(ForwardedHead({.status = 204, .reason = "", .fields = fields, .request_id = "id"}),
            "HTTP/1.1 204 \r\nx-kvgate-request-id: id\r\n\r\n");
  EXPECT_EQ(
      ForwardedHead(
          {.status = 200, .reason = "OK", .fields = fields, .request_id = "id", .chunked = true}),
      "HTTP/1.1 200 OK\r\nx-kvgate-request-id: id\r\ntransfer-encoding: chunked\r\n\r\n");
}

TEST(UpstreamTargetTest, PutsThePathUnderTheBase) {
  EXPECT_EQ(UpstreamTarget("/api/v1", dialect::form::Api::kOpenAi, "/v1/models?x=%20"),
            "/api/v1/models?x=%20");
  EXPECT_EQ(UpstreamTarget("", dialect::form::Api::kAnthropic, "/v1/messages"), "/v1/messages");
  EXPECT_EQ(UpstreamTarget("/v1", dialect::form::Api::kOpenAi, "http://h:1/v1/a"), "/v1/a");
  EXPECT_EQ(UpstreamTarget("/v1", dialect::form::Api::kOpenAi, "/x://h/v1/a"), "/v1/x://h/v1/a");
}

}  // namespace
}  // namespace kvgate::upstream::wire
