#include "gateway/cli/server/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/gateway/fakes.h"
#include "tests/gateway/http/hosted_server.h"
#include "tests/wait_until.h"

namespace kvgate::cli::server {
namespace {

using ::testing::HasSubstr;

constexpr const char* kStream =
    R"({"model":"local","messages":[{"role":"user","content":"hi"}],"stream":true})";

struct Fixture {
  explicit Fixture(test::Script script = {}) : gateway(std::move(script)) {}
  test::Gateway gateway;
  http::HostedServer hosted{gateway.service};
  http::Server* server = hosted.server.get();
};

TEST(FetchHttpTest, ReadsWholeAndChunkedBodies) {
  const Fixture fixture;
  EXPECT_EQ(*FetchOk({.url = fixture.server->url() + "/health"}), R"({"status":"ok"})");
  std::string pieces;
  const auto reply = FetchHttp({.method = "POST",
                                .url = fixture.server->url() + "/v1/chat/completions",
                                .body = kStream,
                                .on_data = [&](std::string_view piece) { pieces += piece; }});
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 200);
  EXPECT_TRUE(pieces.ends_with("data: [DONE]\n\n"));
}

TEST(FetchHttpTest, AServersErrorBecomesItsMessage) {
  const Fixture fixture;
  const auto failed = FetchOk({.url = fixture.server->url() + "/v1/nothing"});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().detail, "There is no /v1/nothing here.");
}

TEST(FetchHttpTest, NobodyThereSaysWhatToDo) {
  const auto failed = FetchOk({.url = "http://127.0.0.1:1/"});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(failed.error().detail, HasSubstr("kvgate serve"));
  EXPECT_EQ(FetchOk({.url = "ftp://x"}).error().code, ErrorCode::kInvalidArgument);
}

TEST(FetchHttpTest, AStopEndsTheWaitAndTheRequest) {
  Fixture fixture({.first_delay = std::chrono::milliseconds(60'000)});
  std::atomic<bool> stop{false};
  std::thread stopper([&] {
    EXPECT_TRUE(test::WaitUntil([&] { return fixture.gateway.engine.num_running() > 0; },
                                "the request runs"));
    stop.store(true);
  });
  const auto reply = FetchHttp({.method = "POST",
                                .url = fixture.server->url() + "/v1/chat/completions",
                                .body = kStream,
                                .stop = &stop});
  stopper.join();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(test::WaitUntil([&] { return fixture.gateway.engine.num_running() == 0; },
                              "the request ends"));
}

}  // namespace
}  // namespace kvgate::cli::server
