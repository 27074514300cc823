#include "gateway/http/server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/gateway/fakes.h"
#include "tests/gateway/http/raw_client.h"

namespace kvgate::http {
namespace {

using std::chrono::milliseconds;
using testing::Gateway;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RawClient;
using testing::RawResponse;
using testing::Script;

struct Setup {
  Script script = {};
  ServerOptions options = {};
  store::KvStore* kv = nullptr;
};

struct TestServer {
  explicit TestServer(Setup setup = {}) : gateway(std::move(setup.script), setup.kv) {
    auto opened = Server::Open(setup.options, gateway.service);
    EXPECT_TRUE(opened) << opened.error().ToString();
    server = std::move(*opened);
  }
  uint16_t port() const { return server->port(); }

  Gateway gateway;
  std::unique_ptr<Server> server;
};

std::string Get(std::string_view path, std::string_view more = "") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", path, more);
}

std::string Post(std::string_view path, std::string_view body, std::string_view more = "") {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n{}\r\n{}",
      path, body.size(), more, body);
}

constexpr std::string_view kChat =
    R"({"model":"local","messages":[{"role":"user","content":"hi"}]})";
constexpr std::string_view kChatStream =
    R"({"model":"local","messages":[{"role":"user","content":"hi"}],"stream":true})";

RawResponse Exchange(const TestServer& server, std::string_view request) {
  RawClient client(server.port());
  EXPECT_TRUE(client.Send(request));
  return client.ReadResponse();
}

bool Eventually(const std::function<bool()>& condition, milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

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

TEST(ServerTest, TheHeadOfAStreamDoesNotWaitForTheFirstToken) {
  TestServer server({.script = {.first_delay = milliseconds(2000)}});
  RawClient client(server.port());
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(client.Send(Post("/v1/chat/completions", kChatStream)));
  ASSERT_TRUE(client.WaitFor("\"role\":\"assistant\""));
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(1500));
}

TEST(ServerTest, PingsASilentStream) {
  TestServer server(
      {.script = {.first_delay = milliseconds(1000)},
       .options = {.ping_interval = milliseconds(100), .poll_interval = milliseconds(20)}});
  const RawResponse response = Exchange(server, Post("/v1/chat/completions", kChatStream));
  EXPECT_THAT(response.body, HasSubstr(": ping\n\n"));
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n"));
}

TEST(ServerTest, PipelinedRequestsAreAnsweredInOrder) {
  TestServer server({.script = {.piece_delay = milliseconds(50)}});
  RawClient client(server.port());
  ASSERT_TRUE(client.Send(Post("/v1/chat/completions", kChatStream) + Get("/health") +
                          Post("/v1/completions", R"({"model":"local","prompt":"x"})") +
                          Get("/v1/nothing")));
  EXPECT_THAT(client.ReadResponse().body, HasSubstr("[DONE]"));
  EXPECT_EQ(client.ReadResponse().body, R"({"status":"ok"})");
  EXPECT_THAT(client.ReadResponse().body, HasSubstr("text_completion"));
  EXPECT_EQ(client.ReadResponse().status, 404);
}

TEST(ServerTest, ReadsAChunkedRequestBodyThatComesInPieces) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(
      client.Send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                  "Content-Type: application/json; charset=utf-8\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n"));
  for (const char c : kChat) {
    ASSERT_TRUE(client.Send(fmt::format("1\r\n{}\r\n", c)));
  }
  ASSERT_TRUE(client.Send("0\r\n\r\n"));
  EXPECT_EQ(client.ReadResponse().status, 200);
}

TEST(ServerTest, AnswersExpectContinueBeforeTheBody) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(
      client.Send(fmt::format("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                              "Content-Type: application/json\r\nExpect: 100-continue\r\n"
                              "Content-Length: {}\r\n\r\n",
                              kChat.size())));
  ASSERT_TRUE(client.WaitFor("HTTP/1.1 100 Continue\r\n\r\n"));
  ASSERT_TRUE(client.Send(kChat));
  EXPECT_EQ(client.ReadResponse().status, 200);
}

TEST(ServerTest, AnOversizedBodyGets413ThatASendingClientCanRead) {
  TestServer server({.options = {.body_bytes_max = 100'000}});
  const std::string piece(1 << 16, 'x');
  for (const bool chunked : {false, true}) {
    RawClient client(server.port());
    ASSERT_TRUE(client.Send(
        fmt::format("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                    "Content-Type: application/json\r\n{}\r\n\r\n",
                    chunked ? "Transfer-Encoding: chunked" : "Content-Length: 8000000")));
    // The client goes on sending all of it before it reads.
    for (int i = 0; i < 122; ++i) {
      ASSERT_TRUE(client.Send(chunked ? fmt::format("10000\r\n{}\r\n", piece) : piece)) << i;
    }
    const RawResponse response = client.ReadResponse();
    EXPECT_EQ(response.status, 413);
    EXPECT_THAT(response.body, HasSubstr("100000 bytes"));
    EXPECT_EQ(response.headers.at("connection"), "close");
    EXPECT_FALSE(client.was_reset());
  }
  EXPECT_EQ(Exchange(server, Get("/health")).status, 200);
}

TEST(ServerTest, RefusesAHeadThatIsTooLargeOrUnreadable) {
  TestServer server;
  EXPECT_EQ(Exchange(server, Get("/health", "X-A: " + std::string(70'000, 'a') + "\r\n")).status,
            431);
  EXPECT_EQ(Exchange(server, "NONSENSE\r\n\r\n").status, 400);
  EXPECT_EQ(Exchange(server, "GET /health HTTP/9.9\r\n\r\n").status, 400);
  EXPECT_EQ(Exchange(server, Get("/health")).status, 200);
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
  const RawResponse unknown = Exchange(server, Get("/v1/embeddings"));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(unknown.body, HasSubstr(R"("type":"invalid_request_error")"));
  EXPECT_TRUE(unknown.headers.contains("x-request-id"));
  const RawResponse method = Exchange(server, Get("/v1/chat/completions"));
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.headers.at("allow"), "POST");
}

TEST(ServerTest, HeadHasTheHeadOfGetAndNoBody) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.Send("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n" + Get("/")));
  const RawResponse head = client.ReadResponse(true);
  const RawResponse get = client.ReadResponse();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), std::to_string(get.body.size()));
}

TEST(ServerTest, AClientThatLeavesCancelsItsRequestWithinASecond) {
  for (const std::string_view body : {kChat, kChatStream}) {
    for (const milliseconds delay : {milliseconds(60'000), milliseconds(20)}) {
      TestServer server(
          {.script = {.first_delay = delay, .piece_delay = milliseconds(20), .forever = true}});
      auto client = std::make_unique<RawClient>(server.port());
      // A second request waits unread behind the first: leaving must be seen all the same.
      ASSERT_TRUE(client->Send(Post("/v1/chat/completions", body) + Get("/health")));
      ASSERT_TRUE(
          Eventually([&] { return server.gateway.engine.num_running() == 1; }, milliseconds(5000)));
      client->Close();
      EXPECT_TRUE(
          Eventually([&] { return server.gateway.engine.num_running() == 0; }, milliseconds(1000)))
          << body << " " << delay.count();
      EXPECT_TRUE(
          Eventually([&] { return server.server->num_connections() == 0; }, milliseconds(1000)));
      EXPECT_EQ(server.gateway.engine.num_cancelled(), 1);
      EXPECT_EQ(server.gateway.metrics.client_disconnects.value(), 1u);
    }
  }
}

TEST(ServerTest, AClientThatOnlyStopsSendingStillGetsItsAnswer) {
  TestServer server({.script = {.first_delay = milliseconds(700)},
                     .options = {.poll_interval = milliseconds(50)}});
  for (const std::string_view body : {kChat, kChatStream}) {
    RawClient client(server.port());
    ASSERT_TRUE(client.Send(Post("/v1/chat/completions", body)));
    client.ShutdownSend();
    const RawResponse response = client.ReadResponse();
    EXPECT_EQ(response.status, 200);
    EXPECT_THAT(response.body, HasSubstr("world"));
  }
}

TEST(ServerTest, ASlowReaderDoesNotHoldUpOthersAndIsCutOff) {
  const std::string large(4096, 'y');
  TestServer server({.script = {.pieces = {large}, .piece_delay = milliseconds(1), .forever = true},
                     .options = {.write_timeout = milliseconds(500)}});
  RawClient slow(server.port(), 4096);
  ASSERT_TRUE(slow.Send(Post("/v1/chat/completions", kChatStream)));
  ASSERT_TRUE(
      Eventually([&] { return server.gateway.engine.num_running() == 1; }, milliseconds(5000)));
  EXPECT_EQ(Exchange(server, Get("/health")).status, 200);
  EXPECT_TRUE(
      Eventually([&] { return server.gateway.engine.num_running() == 0; }, milliseconds(15'000)));
}

TEST(ServerTest, ConnectionsOverTheLimitGet503) {
  TestServer server({.options = {.connections_max = 2}});
  RawClient first(server.port());
  RawClient second(server.port());
  ASSERT_TRUE(
      Eventually([&] { return server.server->num_connections() == 2; }, milliseconds(2000)));
  RawClient third(server.port());
  const RawResponse response = third.ReadResponse();
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.headers.at("retry-after"), "1");
  ASSERT_TRUE(first.Send(Get("/health")));
  EXPECT_EQ(first.ReadResponse().status, 200);
}

TEST(ServerTest, IdleAndDawdlingConnectionsAreClosed) {
  TestServer server({.options = {.header_timeout = milliseconds(200),
                                 .body_timeout = milliseconds(200),
                                 .idle_timeout = milliseconds(200)}});
  RawClient idle(server.port());
  EXPECT_EQ(idle.ReadAll(), "");
  RawClient head(server.port());
  ASSERT_TRUE(head.Send("GET /heal"));
  EXPECT_EQ(head.ReadAll(), "");
  RawClient body(server.port());
  ASSERT_TRUE(
      body.Send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                "Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{"));
  EXPECT_EQ(body.ReadAll(), "");
}

TEST(ServerTest, Http10ClientsGetAnUnchunkedStreamUntilClose) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(
      client.Send(fmt::format("POST /v1/chat/completions HTTP/1.0\r\n"
                              "Content-Type: application/json\r\n"
                              "Content-Length: {}\r\n\r\n{}",
                              kChatStream.size(), kChatStream)));
  const std::string all = client.ReadAll();
  EXPECT_TRUE(all.starts_with("HTTP/1.0 200 OK\r\n"));
  EXPECT_THAT(all, Not(HasSubstr("transfer-encoding")));
  EXPECT_TRUE(all.ends_with("data: [DONE]\n\n"));
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
  EXPECT_TRUE(
      Eventually([&] { return server.server->num_connections() == 0; }, milliseconds(2000)));
  EXPECT_FALSE(RawClient(server.port()).connected());
}

TEST(ServerTest, DestructionCancelsWhatRuns) {
  TestServer server({.script = {.first_delay = milliseconds(60'000)}});
  RawClient client(server.port());
  ASSERT_TRUE(client.Send(Post("/v1/chat/completions", kChat)));
  ASSERT_TRUE(
      Eventually([&] { return server.gateway.engine.num_running() == 1; }, milliseconds(5000)));
  server.server.reset();
  EXPECT_TRUE(
      Eventually([&] { return server.gateway.engine.num_running() == 0; }, milliseconds(1000)));
}

TEST(ServerTest, ReadyAndHealthAndMetricsAndStats) {
  TestServer server;
  EXPECT_EQ(Exchange(server, Get("/ready")).status, 200);
  Exchange(server, Post("/v1/chat/completions", kChat));
  const std::string text = Exchange(server, Get("/metrics")).body;
  EXPECT_THAT(text, HasSubstr("kvgate_http_requests_total{route=\"/v1/chat/completions\","
                              "status=\"200\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_ttft_seconds_count 1\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_itl_seconds_count 2\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_prompt_tokens_total{source=\"device\"} 96\n"));
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
  testing::FakeKvStore kv;
  kv.prefixes.push_back({.leaf = {.fingerprint = {1, 2}, .hash = {0xab, 0xcd}},
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
  TestServer server({.script = {.reason = engine::FinishReason::kError, .error = error}});
  EXPECT_EQ(Exchange(server, Post("/v1/chat/completions", kChat)).status, 503);
  const RawResponse stream = Exchange(server, Post("/v1/chat/completions", kChatStream));
  EXPECT_EQ(stream.status, 200);
  EXPECT_THAT(stream.body, HasSubstr("data: {\"error\":{\"message\":\"no KV blocks left\""));
  EXPECT_THAT(stream.body, Not(HasSubstr("[DONE]")));
}

TEST(ServerTest, TwoServersCannotShareAPort) {
  TestServer server;
  const auto second = Server::Open({.port = server.port()}, server.gateway.service);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().detail, HasSubstr(std::to_string(server.port())));
  EXPECT_FALSE(Server::Open({.address = "not an address"}, server.gateway.service));
}

}  // namespace
}  // namespace kvgate::http
