#include "gateway/cli/server/conversation.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/gateway/fakes.h"
#include "tests/gateway/http/hosted_server.h"

namespace kvgate::cli::server {
namespace {

using dialect::form::Message;

TEST(SseTextTest, FindsTheTextHoweverTheStreamIsCut) {
  const std::string stream =
      ": ping\n\ndata: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
      "data: {\"choices\":[{\"delta\":{\"content\":\"a\\n\"}}]}\r\n\r\n"
      "data:{\"choices\":[{\"delta\":{\"content\":\"\xC3\xA9\"}}]}\n\n"
      "data: {\"choices\":[]}\n\ndata: [DONE]\n\n";
  for (size_t step = 1; step <= stream.size(); ++step) {
    SseText text;
    std::string all;
    for (size_t at = 0; at < stream.size(); at += step) {
      ASSERT_TRUE(text.Push(std::string_view(stream).substr(at, step),
                            [&](std::string_view piece) { all += piece; }));
    }
    EXPECT_EQ(all, "a\n\xC3\xA9") << step;
  }
}

TEST(SseTextTest, AnErrorInTheStreamIsReturned) {
  SseText text;
  const auto pushed =
      text.Push("data: {\"error\":{\"message\":\"full\"}}\n\n", [](std::string_view) {});
  ASSERT_FALSE(pushed);
  EXPECT_EQ(pushed.error().detail, "full");
}

TEST(SseTextTest, TheUsageIsWhatTheServerSays) {
  SseText text;
  EXPECT_EQ(text.cost().cached_tokens, -1);
  ASSERT_TRUE(
      text.Push("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":200,"
                "\"completion_tokens\":11,"
                "\"prompt_tokens_details\":{\"cached_tokens\":150}}}\n\n",
                [](std::string_view) {}));
  AnswerCost cost = text.cost();
  cost.ttft_seconds = 0.5;
  cost.total_seconds = 1;
  EXPECT_EQ(CostLine(cost), "200 prompt tokens, 150 cached (75 %); 11 tokens in 1.0 s, 20.0 tok/s");
  EXPECT_EQ(CostLine({}), "");
}

TEST(AnswererTest, AServerAndAnEngineInThisProcessAnswerAlike) {
  test::Gateway gateway;
  const http::HostedServer hosted(gateway.service);
  const http::Server* server = hosted.server.get();
  const local::LocalProvider local({.engine = gateway.engine,
                                    .tokenizer = gateway.tokenizer,
                                    .chat_format = std::make_unique<test::FakeChatFormat>(),
                                    .names = {"m"}});
  const std::atomic<bool> stop{false};
  for (const auto& answerer :
       {MakeServerAnswerer({.address = {.url = server->url()}}, {}).release(),
        MakeLocalAnswerer(local, {}).release()}) {
    const std::unique_ptr<Answerer> owned(answerer);
    std::string text;
    const auto answered = owned->Answer(
        {{"user", "hi"}}, [&](std::string_view piece) { text += piece; }, stop);
    ASSERT_TRUE(answered) << answered.error().ToString();
    EXPECT_EQ(text, "Hello world!");
    EXPECT_GT(answered->prompt_tokens, 0);
    EXPECT_GT(answered->output_tokens, 0);
    EXPECT_EQ(gateway.engine.last_request().max_tokens, 512);
  }
}

TEST(AnswererTest, AStopIsNoError) {
  test::Gateway gateway({.first_delay = std::chrono::milliseconds(60'000)});
  const local::LocalProvider local({.engine = gateway.engine,
                                    .tokenizer = gateway.tokenizer,
                                    .chat_format = std::make_unique<test::FakeChatFormat>(),
                                    .names = {"m"}});
  const std::atomic<bool> stop{true};
  const auto answerer = MakeLocalAnswerer(local, {});
  EXPECT_TRUE(answerer->Answer(
      {{"user", "hi"}}, [](std::string_view) {}, stop));
}

}  // namespace
}  // namespace kvgate::cli::server
