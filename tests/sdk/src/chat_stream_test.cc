#include "sdk/src/chat_stream.h"

#include <gtest/gtest.h>

namespace kvgate::sdk {
namespace {

using transport::Channel;

constexpr const char* kEvents = "text/event-stream; charset=utf-8";
constexpr std::string_view kHello =
    "data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"},\"finish_reason\":\"stop\"}]}\n\n";

// Gives its channel to the test, which writes the answer.
class FakeTransport final : public transport::Transport {
 public:
  std::shared_ptr<Channel> channel = std::make_shared<Channel>();
  transport::Request request;

 private:
  std::shared_ptr<Channel> Start(transport::Request started) override {
    request = std::move(started);
    return channel;
  }
  Result<std::string> Listen(const std::string& /*address*/) override { return ""; }
  void StopListening(std::chrono::milliseconds /*drain*/) override {}
};

TEST(StreamedBodyTest, StreamingIsAskedForLast) {
  constexpr const char* kAsked = "\"stream\":true,\"stream_options\":{\"include_usage\":true}}";
  EXPECT_EQ(StreamedBody("{}"), std::string("{") + kAsked);
  EXPECT_EQ(StreamedBody(" { } \n"), std::string("{ ") + kAsked);
  EXPECT_EQ(StreamedBody("{\"a\":1}"), std::string("{\"a\":1,") + kAsked);
  EXPECT_EQ(StreamedBody("{\"stream\":false } "), std::string("{\"stream\":false ,") + kAsked);
  EXPECT_EQ(StreamedBody("[1]"), "[1]");
  EXPECT_EQ(StreamedBody(""), "");
}

TEST(ChatStreamTest, EventsThenTheEnd) {
  FakeTransport transport;
  ChatStream stream(transport, {}, nullptr);
  EXPECT_EQ(stream.Next(false), KVGATE_AGAIN);
  EXPECT_EQ(stream.start(), nullptr);
  transport.channel->Begin({.status = 200, .headers = {{"content-type", kEvents}}});
  transport.channel->Push(kHello);
  EXPECT_EQ(stream.Next(false), KVGATE_OK);
  EXPECT_EQ(stream.event().text, "Hello");
  ASSERT_NE(stream.start(), nullptr);
  EXPECT_EQ(stream.start()->status, 200);
  EXPECT_EQ(stream.Next(false), KVGATE_OK);
  EXPECT_EQ(stream.event().kind, KVGATE_EVENT_FINISH);
  EXPECT_EQ(stream.Next(false), KVGATE_AGAIN);
  transport.channel->Push("data: [DONE]\n\n");
  transport.channel->End();
  EXPECT_EQ(stream.Next(true), KVGATE_END);
  EXPECT_EQ(stream.Next(true), KVGATE_END);
}

TEST(ChatStreamTest, AStatusThatIsNoSuccessIsAFailure) {
  FakeTransport transport;
  ChatStream stream(transport, {}, nullptr);
  transport.channel->Begin({.status = 429,
                            .headers = {{"content-type", "application/json"},
                                        {"retry-after", "2"},
                                        {"x-kvgate-request-id", "r1"}}});
  transport.channel->Push(R"({"error":{"message":"slow down","code":"rate_limit_exceeded"}})");
  transport.channel->End();
  EXPECT_EQ(stream.Next(true), KVGATE_RATE_LIMITED);
  EXPECT_EQ(stream.failure().message, "slow down");
  EXPECT_EQ(stream.failure().retry_after_ms, 2000u);
  EXPECT_EQ(stream.failure().request_id, "r1");
  EXPECT_EQ(stream.Next(true), KVGATE_RATE_LIMITED);
}

TEST(ChatStreamTest, AnAnswerThatBreaksOffFailsBehindItsEvents) {
  FakeTransport transport;
  ChatStream stream(transport, {}, nullptr);
  transport.channel->Begin({.status = 200, .headers = {{"content-type", kEvents}}});
  transport.channel->Push(kHello);
  transport.channel->Fail({.status = KVGATE_UNAVAILABLE, .message = "gone"});
  EXPECT_EQ(stream.Next(true), KVGATE_OK);
  EXPECT_EQ(stream.Next(true), KVGATE_OK);
  EXPECT_EQ(stream.Next(true), KVGATE_UNAVAILABLE);
  EXPECT_EQ(stream.failure().message, "gone");
}

TEST(ChatStreamTest, AWholeAnswerIsReadToo) {
  FakeTransport transport;
  ChatStream stream(transport, {}, nullptr);
  transport.channel->Begin({.status = 200, .headers = {{"content-type", "application/json"}}});
  transport.channel->Push(R"({"choices":[{"message":{"content":"Hi"}}]})");
  transport.channel->End();
  EXPECT_EQ(stream.Next(true), KVGATE_OK);
  EXPECT_EQ(stream.event().text, "Hi");
  EXPECT_EQ(stream.Next(true), KVGATE_END);
}

TEST(ChatStreamTest, ReadyMeansAnEventAndNotOnlyBytes) {
  FakeTransport transport;
  ChatStream stream(transport, {}, nullptr);
  int num_calls = 0;
  stream.OnReady([&] { ++num_calls; });
  transport.channel->Begin({.status = 200, .headers = {{"content-type", kEvents}}});
  transport.channel->Push(": ping\n\n");
  transport.channel->Push(kHello.substr(0, 20));
  EXPECT_EQ(num_calls, 0);
  transport.channel->Push(kHello.substr(20));
  EXPECT_EQ(num_calls, 1);
  EXPECT_EQ(stream.Next(false), KVGATE_OK);
  stream.OnReady([&] { ++num_calls; });  // the finish is there already
  EXPECT_EQ(num_calls, 2);
  EXPECT_EQ(stream.Next(false), KVGATE_OK);
  stream.OnReady([&] { ++num_calls; });
  transport.channel->Push("data: [DONE]\n\n");
  EXPECT_EQ(num_calls, 2);
  transport.channel->End();
  EXPECT_EQ(num_calls, 3);
  EXPECT_EQ(stream.Next(false), KVGATE_END);
}

TEST(ChatStreamTest, WhoIsToldMayEndTheStream) {
  FakeTransport transport;
  auto stream = std::make_unique<ChatStream>(transport, transport::Request(), nullptr);
  stream->OnReady([&] { stream.reset(); });
  transport.channel->Begin({.status = 200, .headers = {{"content-type", kEvents}}});
  transport.channel->Push(kHello);
  EXPECT_EQ(stream, nullptr);
  EXPECT_EQ(transport.channel->failure().status, KVGATE_CANCELLED);
}

}  // namespace
}  // namespace kvgate::sdk
