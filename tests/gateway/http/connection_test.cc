#include "gateway/http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "tests/gateway/http/test_server.h"

namespace kvgate::http {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ConnectionTest, TheHeadOfASilentStreamGoesOutAfterItsDelay) {
  TestServer server({.script = {.first_delay = milliseconds(60'000)},
                     .options = {.poll_interval = milliseconds(20)},
                     .host = {.requests = {.head_delay = milliseconds(300)}}});
  RawClient client(server.port());
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(client.Send(Post("/v1/chat/completions", kChatStream)));
  ASSERT_TRUE(client.WaitFor("\"role\":\"assistant\""));
  const auto waited = std::chrono::steady_clock::now() - start;
  EXPECT_GE(waited, milliseconds(300));
}

// Returns the script of an engine that refuses late: 429 with its own retry advice.
Script RefusesAfter(milliseconds delay) {
  Error error = MakeError(ErrorCode::kRateLimited, "engine", "no first token in time");
  error.retry_after_seconds = 7;
  return {
      .pieces = {}, .first_delay = delay, .reason = engine::FinishReason::kError, .error = error};
}

TEST(ConnectionTest, AnErrorBeforeAStreamsHeadHasItsOwnStatusAndRetryAfter) {
  TestServer server({.script = RefusesAfter(milliseconds(200))});
  RawClient client(server.port());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(client.Send(Post("/v1/chat/completions", kChatStream)));
    const RawResponse response = client.ReadResponse();
    EXPECT_EQ(response.status, 429);
    EXPECT_EQ(response.headers.at("retry-after"), "7");
    EXPECT_EQ(response.headers.at("content-type"), "application/json");
    EXPECT_THAT(response.body, HasSubstr("rate_limit_exceeded"));
  }
}

TEST(ConnectionTest, AnErrorAfterAStreamsHeadIsItsLastEvent) {
  TestServer server({.script = RefusesAfter(milliseconds(1000)),
                     .options = {.poll_interval = milliseconds(20)},
                     .host = {.requests = {.head_delay = milliseconds(100)}}});
  const RawResponse response = Exchange(server, Post("/v1/chat/completions", kChatStream));
  EXPECT_EQ(response.status, 200);
  EXPECT_THAT(response.body, HasSubstr("rate_limit_exceeded"));
  EXPECT_THAT(response.body, Not(HasSubstr("[DONE]")));
}

TEST(ConnectionTest, PingsASilentStream) {
  TestServer server({.script = {.first_delay = milliseconds(1000)},
                     .options = {.poll_interval = milliseconds(20)},
                     .host = {.requests = {.ping_interval = milliseconds(100),
                                           .head_delay = milliseconds(100)}}});
  const RawResponse response = Exchange(server, Post("/v1/chat/completions", kChatStream));
  EXPECT_THAT(response.body, HasSubstr(": ping\n\n"));
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n"));
}

TEST(ConnectionTest, PipelinedRequestsAreAnsweredInOrder) {
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

TEST(ConnectionTest, ReadsAChunkedRequestBodyThatComesInPieces) {
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

TEST(ConnectionTest, AnswersExpectContinueBeforeTheBody) {
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

TEST(ConnectionTest, AnOversizedBodyGets413ThatASendingClientCanRead) {
  TestServer server({.host = {.requests = {.body_bytes_max = 100'000}}});
  const std::string piece(1 << 16, 'x');
  for (const bool chunked : {false, true}) {
    RawClient client(server.port());
    ASSERT_TRUE(client.Send(
        fmt::format("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                    "Content-Type: application/json\r\n{}\r\n\r\n",
                    chunked ? "Transfer-Encoding: chunked" : "Content-Length: 8000000")));
    // The client sends all of the body before it reads.
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

TEST(ConnectionTest, ARefusedClientThatGoesOnSendingIsNotReadForLong) {
  TestServer server({.options = {.linger_timeout = std::chrono::milliseconds(500)}});
  RawClient client(server.port());
  ASSERT_TRUE(
      client.Send("POST /nothing HTTP/1.1\r\nHost: localhost\r\n"
                  "Content-Type: application/json\r\nContent-Length: 60000000\r\n\r\n"));
  EXPECT_EQ(client.ReadResponse().status, 404);
  // Unread bytes fill the buffers on the way, and then the client blocks.
  const std::string piece(size_t{1} << 20, 'x');
  int sent = 0;
  while (sent < 57 && client.Send(piece)) ++sent;
  EXPECT_LT(sent, 57);
  EXPECT_EQ(Exchange(server, Get("/health")).status, 200);
}

TEST(ConnectionTest, RefusesAHeadThatIsTooLargeOrUnreadable) {
  TestServer server;
  EXPECT_EQ(Exchange(server, Get("/health", "X-A: " + std::string(70'000, 'a') + "\r\n")).status,
            431);
  EXPECT_EQ(Exchange(server, "NONSENSE\r\n\r\n").status, 400);
  EXPECT_EQ(Exchange(server, "GET /health HTTP/9.9\r\n\r\n").status, 400);
  EXPECT_EQ(Exchange(server, Get("/health")).status, 200);
}

TEST(ConnectionTest, HeadHasTheHeadOfGetAndNoBody) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.Send("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n" + Get("/")));
  const RawResponse head = client.ReadResponse(true);
  const RawResponse get = client.ReadResponse();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), std::to_string(get.body.size()));
}

TEST(ConnectionTimingTest, AClientThatLeavesCancelsItsRequestWithinASecond) {
  // It is a second on a machine that answers at once, and more on one that does not.
  const TestServer idle;
  const auto asked = std::chrono::steady_clock::now();
  EXPECT_EQ(Exchange(idle, Get("/health")).status, 200);
  const auto answering = std::chrono::steady_clock::now() - asked;
  const milliseconds limit =
      std::max(milliseconds(1000), std::chrono::ceil<milliseconds>(20 * answering));
  for (const std::string_view body : {kChat, kChatStream}) {
    for (const milliseconds delay : {milliseconds(60'000), milliseconds(20)}) {
      TestServer server(
          {.script = {.first_delay = delay, .piece_delay = milliseconds(20), .forever = true}});
      auto client = std::make_unique<RawClient>(server.port());
      // A second request waits unread behind the first; the client's leaving must be noticed all
      // the same.
      ASSERT_TRUE(client->Send(Post("/v1/chat/completions", body) + Get("/health")));
      ASSERT_TRUE(test::WaitUntil([&] { return server.gateway.engine.num_running() == 1; },
                                  "the request runs"));
      client->Close();
      EXPECT_TRUE(test::WaitUntil([&] { return server.gateway.engine.num_running() == 0; },
                                  "the engine is idle", limit))
          << body << " " << delay.count();
      EXPECT_TRUE(test::WaitUntil([&] { return server.server->num_connections() == 0; },
                                  "the connections end", limit));
      EXPECT_EQ(server.gateway.engine.num_cancelled(), 1);
      EXPECT_EQ(server.gateway.metrics.client_disconnects.value(), 1u);
    }
  }
}

TEST(ConnectionTest, AClientThatOnlyStopsSendingStillGetsItsAnswer) {
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

TEST(ConnectionTest, AllOfAPipelineIsAnsweredThoughItsClientStopsSending) {
  TestServer server({.script = {.first_delay = milliseconds(120)},
                     .options = {.poll_interval = milliseconds(20)}});
  RawClient client(server.port());
  std::string requests;
  for (int i = 0; i < 3; ++i) {
    requests += Post("/v1/chat/completions", i == 1 ? kChatStream : kChat);
    requests += Get("/health");
  }
  ASSERT_TRUE(client.Send(requests));
  client.ShutdownSend();
  for (int i = 0; i < 3; ++i) {
    const RawResponse answer = client.ReadResponse();
    EXPECT_EQ(answer.status, 200) << i;
    EXPECT_THAT(answer.body, HasSubstr("world"));
    EXPECT_EQ(client.ReadResponse().status, 200) << i;
  }
  EXPECT_EQ(client.ReadAll(), "");
}

TEST(ConnectionTest, BodiesBeyondTheBudgetAreRefusedUnreadAndTakenWhenThereIsRoom) {
  TestServer server({.host = {.bodies_bytes_max = uint64_t{2} << 20,
                              .tenant_bodies_share = 1,
                              .requests = {.body_bytes_max = size_t{1} << 20}}});
  // Two requests that lack only their last byte hold all of the budget.
  const std::string body = fmt::format(
      R"({{"model":"local","messages":[{{"role":"user","content":"hi"}}],"user":"{}"}})",
      std::string((size_t{1} << 20) - 100, 'u'));
  const std::string request = Post("/v1/chat/completions", body);
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 2; ++i) {
    slow.push_back(std::make_unique<RawClient>(server.port()));
    ASSERT_TRUE(slow.back()->Send(std::string_view(request).substr(0, request.size() - 1)));
  }
  const auto held = [&] {
    return server.gateway.service.MetricsAsKnown().find(
               fmt::format("kvgate_bodies_bytes {}\n", 2 * body.size())) != std::string::npos;
  };
  ASSERT_TRUE(test::WaitUntil(held, "both bodies are held"));
  const RawResponse refused = Exchange(server, request);
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("do not fit into the limit"));
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  EXPECT_EQ(Exchange(server, Get("/health")).status, 200);
  for (const auto& client : slow) {
    ASSERT_TRUE(client->Send("}"));
    EXPECT_EQ(client->ReadResponse().status, 200);
  }
  EXPECT_EQ(Exchange(server, request).status, 200);
}

TEST(ConnectionTest, ASlowReaderDoesNotHoldUpOthersAndIsCutOff) {
  const std::string large(4096, 'y');
  TestServer server({.script = {.pieces = {large}, .piece_delay = milliseconds(1), .forever = true},
                     .options = {.write_timeout = milliseconds(500)}});
  RawClient slow(server.port(), 4096);
  ASSERT_TRUE(slow.Send(Post("/v1/chat/completions", kChatStream)));
  ASSERT_TRUE(test::WaitUntil([&] { return server.gateway.engine.num_running() == 1; },
                              "the request runs"));
  EXPECT_EQ(Exchange(server, Get("/health")).status, 200);
  EXPECT_TRUE(test::WaitUntil([&] { return server.gateway.engine.num_running() == 0; },
                              "the engine is idle"));
}

TEST(ConnectionTest, IdleAndDawdlingConnectionsAreClosed) {
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

TEST(ConnectionTest, Http10ClientsGetAnUnchunkedStreamUntilClose) {
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

}  // namespace
}  // namespace kvgate::http
