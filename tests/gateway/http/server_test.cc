#include "gateway/http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/gateway/http/test_server.h"

namespace kvgate::http {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ServerTest, AnswersACompletionWithOneBody) {
  TestServer server;
  const RawResponse response = Exchange(server, Post("/v1/chat/completions", kChat));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.at("content-type"), "application/json");
  EXPECT_THAT(response.body, HasSubstr("Hello world!"));
  EXPECT_EQ(response.headers.at("x-kvgate-request-id"), response.headers.at("x-request-id"));
  EXPECT_EQ(response.headers.at("x-kvgate-request-id").size(), 24u);
}

TEST(ServerTest, StreamsEventsInChunksAndKeepsTheConnection) {
  TestServer server;
  RawClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.Send(Post("/v1/chat/completions", kChatStream)));
    const RawResponse response = client.ReadResponse();
    EXPECT_EQ(response.status, 200);
    EXPECT_TRUE(response.complete);
    EXPECT_EQ(response.headers.at("content-type"), "text/event-stream; charset=utf-8");
    EXPECT_EQ(response.headers.at("cache-control"), "no-cache");
    EXPECT_EQ(response.headers.at("x-accel-buffering"), "no");
    EXPECT_THAT(response.body, HasSubstr(R"("delta":{"role":"assistant","content":""})"));
    EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n"));
  }
}

TEST(ServerTest, ForeignHostsOriginsAndContentTypesAreRefused) {
  TestServer server({.options = {.allowed_hosts = {"gate.example"}}});
  const auto status = [&](std::string_view request) { return Exchange(server, request).status; };
  EXPECT_EQ(status("GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n"), 421);
  EXPECT_EQ(status("GET /health HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status("GET /health HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n"), 200);
  EXPECT_EQ(status("GET /health HTTP/1.1\r\nHost: GATE.example\r\n\r\n"), 200);
  EXPECT_EQ(status(Get("/health", "Origin: http://evil.example\r\n")), 403);
  EXPECT_EQ(status(Get("/health", "Origin: null\r\n")), 403);
  EXPECT_EQ(status(Get("/health", "Origin: http://localhost\r\n")), 200);
  EXPECT_EQ(status("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                   "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}"),
            415);
}

TEST(ServerTest, UnknownPathsAndMethodsGetJson) {
  TestServer server;
  const RawResponse unknown = Exchange(server, Get("/v1/files"));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(unknown.body, HasSubstr(R"("type":"invalid_request_error")"));
  EXPECT_TRUE(unknown.headers.contains("x-request-id"));
  const RawResponse method = Exchange(server, Get("/v1/chat/completions"));
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.headers.at("allow"), "POST");
}

TEST(ServerTest, ConnectionsOverTheLimitGet503) {
  TestServer server({.options = {.connections_max = 2}});
  RawClient first(server.port());
  RawClient second(server.port());
  ASSERT_TRUE(
      test::WaitUntil([&] { return server.server->num_connections() == 2; }, "both are connected"));
  RawClient third(server.port());
  const RawResponse response = third.ReadResponse();
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.headers.at("retry-after"), "1");
  ASSERT_TRUE(first.Send(Get("/health")));
  EXPECT_EQ(first.ReadResponse().status, 200);
}

TEST(ServerTest, ADrainFinishesWhatRunsAndTakesNothingNew) {
  TestServer server({.script = {.piece_delay = milliseconds(200)}});
  RawClient idle(server.port());
  RawClient busy(server.port());
  ASSERT_TRUE(busy.Send(Post("/v1/chat/completions", kChatStream)));
  ASSERT_TRUE(busy.WaitFor("Hello"));
  server.gateway.service.BeginDrain();
  server.server->BeginDrain();
  const RawResponse response = busy.ReadResponse();
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(idle.ReadAll(), "");
  EXPECT_TRUE(test::WaitUntil([&] { return server.server->num_connections() == 0; },
                              "the connections end"));
  EXPECT_FALSE(RawClient(server.port()).connected());
}

TEST(ServerTest, BeforeADrainRequestsAreServedAndEndTheirConnections) {
  TestServer server;
  RawClient kept(server.port());
  ASSERT_TRUE(kept.Send(Post("/v1/chat/completions", kChatStream)));
  EXPECT_EQ(kept.ReadResponse().headers.count("connection"), 0u);
  server.gateway.service.BeginDrain(service::Service::Drain::kServes);
  server.server->CloseAfterAnswers();
  ASSERT_TRUE(kept.Send(Post("/v1/chat/completions", kChatStream)));
  const RawResponse last = kept.ReadResponse();
  EXPECT_EQ(last.status, 200);
  EXPECT_EQ(last.headers.at("connection"), "close");
  EXPECT_TRUE(last.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(kept.ReadAll(), "") << "it is closed";
  EXPECT_EQ(Exchange(server, Post("/v1/chat/completions", kChat)).status, 200);
  EXPECT_EQ(Exchange(server, Get("/ready")).status, 503);
  EXPECT_EQ(Exchange(server, Get("/health")).status, 200);
}

TEST(ServerTest, AnswersThatAreEndedSayWhyAndCloseTheirConnections) {
  TestServer server({.script = {.piece_delay = milliseconds(20), .forever = true}});
  RawClient stream(server.port());
  RawClient whole(server.port());
  ASSERT_TRUE(stream.Send(Post("/v1/chat/completions", kChatStream)));
  ASSERT_TRUE(whole.Send(Post("/v1/chat/completions", kChat)));
  ASSERT_TRUE(stream.WaitFor("Hello"));
  ASSERT_TRUE(test::WaitUntil([&] { return server.gateway.engine.num_running() == 2; },
                              "both requests run"));
  server.server->BeginDrain();
  server.server->EndAnswers();
  const RawResponse ended = stream.ReadResponse();
  EXPECT_TRUE(ended.complete);
  EXPECT_THAT(ended.body, HasSubstr("the request was cancelled"));
  EXPECT_EQ(whole.ReadResponse().status, 503);
  EXPECT_TRUE(test::WaitUntil([&] { return server.server->num_connections() == 0; },
                              "the connections end"));
}

// An answer may be told to end at any moment, also before the engine has been asked.
TEST(ServerTest, AnswersAreEndedAtAnyMoment) {
  for (int i = 0; i < 40; ++i) {
    TestServer server({.script = {.piece_delay = milliseconds(20), .forever = true}});
    RawClient client(server.port());
    ASSERT_TRUE(client.Send(Post("/v1/chat/completions", i % 2 == 0 ? kChat : kChatStream)));
    std::this_thread::sleep_for(std::chrono::microseconds(60 * i));
    server.server->BeginDrain();
    server.server->EndAnswers();
    ASSERT_TRUE(test::WaitUntil([&] { return server.server->num_connections() == 0; },
                                "the connection ends"));
  }
}

TEST(ServerTest, DestructionCancelsWhatRuns) {
  TestServer server({.script = {.first_delay = milliseconds(60'000)}});
  RawClient client(server.port());
  ASSERT_TRUE(client.Send(Post("/v1/chat/completions", kChat)));
  ASSERT_TRUE(test::WaitUntil([&] { return server.gateway.engine.num_running() == 1; },
                              "the request runs"));
  server.server.reset();
  EXPECT_TRUE(test::WaitUntil([&] { return server.gateway.engine.num_running() == 0; },
                              "the engine is idle"));
}

TEST(ServerTest, ReadyAndHealthAndMetricsAndStats) {
  TestServer server;
  EXPECT_EQ(Exchange(server, Get("/ready")).status, 200);
  Exchange(server, Post("/v1/chat/completions", kChat));
  const std::string text = Exchange(server, Get("/metrics")).body;
  EXPECT_THAT(text, HasSubstr("kvgate_http_requests_total{route=\"/v1/chat/completions\","
                              "status=\"200\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_ttft_seconds_count{upstream=\"local\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_itl_seconds_count{upstream=\"local\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_engine_prompt_tokens_total{source=\"device\"} 96\n"));
  EXPECT_THAT(Exchange(server, Get("/kvgate/v1/stats")).body, HasSubstr("\"device_tokens\":96"));
  server.gateway.service.BeginDrain();
  EXPECT_EQ(Exchange(server, Get("/ready")).status, 503);
  EXPECT_EQ(Exchange(server, Get("/health")).status, 200);
  EXPECT_EQ(Exchange(server, Post("/v1/chat/completions", kChat)).status, 503);
}

TEST(ServerTest, ModelsAreListedAndFoundByName) {
  TestServer server;
  EXPECT_THAT(Exchange(server, Get("/v1/models")).body, HasSubstr("\"id\":\"fake-model\""));
  EXPECT_EQ(Exchange(server, Get("/v1/models/fake%2Dmodel")).status, 200);
  const RawResponse unknown = Exchange(server, Get("/v1/models/gpt%2F9"));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(unknown.body, HasSubstr("gpt/9"));
  EXPECT_THAT(unknown.body, HasSubstr("\"code\":\"model_not_found\""));
}

TEST(ServerTest, PrefixesAreListedRemovedAndVerified) {
  test::FakeKvStore kv;
  kv.prefixes.push_back({.leaf = {.fingerprint = {1, 2}, .hash = {0xab, 0xcd}},
                         .first = {},
                         .num_blocks = 3,
                         .payload_bytes = 99,
                         .last_used_unix = 5});
  TestServer server({.kv = &kv});
  const std::string id = ToHex(kv.prefixes[0].leaf.hash);
  const std::string list = Exchange(server, Get("/kvgate/v1/prefixes")).body;
  EXPECT_THAT(list, HasSubstr(id));
  EXPECT_THAT(list, HasSubstr("\"tokens\":96"));
  EXPECT_THAT(Exchange(server, Post("/kvgate/v1/prefixes/verify", "{}")).body,
              HasSubstr("\"dropped\":1"));
  const auto remove = [&](std::string_view path) {
    return Exchange(server, fmt::format("DELETE {} HTTP/1.1\r\nHost: localhost\r\n\r\n", path));
  };
  EXPECT_EQ(remove("/kvgate/v1/prefixes/nonsense").status, 400);
  EXPECT_EQ(remove("/kvgate/v1/prefixes/" + id).body, R"({"removed":1})");
  EXPECT_EQ(remove("/kvgate/v1/prefixes/" + id).status, 404);
  EXPECT_EQ(remove("/kvgate/v1/prefixes").body, R"({"removed":0})");
}

TEST(ServerTest, AnEngineErrorHasAStatusOrEndsTheStream) {
  const Error error = MakeError(ErrorCode::kOverloaded, "engine", "no KV blocks left");
  TestServer silent(
      {.script = {.pieces = {}, .reason = engine::FinishReason::kError, .error = error}});
  for (const std::string_view body : {kChat, kChatStream}) {
    const RawResponse response = Exchange(silent, Post("/v1/chat/completions", body));
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(response.headers.at("retry-after"), "1");
  }
  TestServer midway({.script = {.piece_delay = milliseconds(50),
                                .reason = engine::FinishReason::kError,
                                .error = error}});
  const RawResponse stream = Exchange(midway, Post("/v1/chat/completions", kChatStream));
  EXPECT_EQ(stream.status, 200);
  EXPECT_THAT(stream.body, HasSubstr("data: {\"error\":{\"message\":\"no KV blocks left\""));
  EXPECT_THAT(stream.body, Not(HasSubstr("[DONE]")));
}

TEST(ServerTest, TwoServersCannotShareAPort) {
  TestServer server;
  const auto second = Server::Open({.port = server.port()}, *server.hosted.host);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().detail, HasSubstr(std::to_string(server.port())));
  EXPECT_FALSE(Server::Open({.address = "not an address"}, *server.hosted.host));
}

}  // namespace
}  // namespace kvgate::http
