#include "gateway/proxy/handler/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/service/prompts.h"
#include "tests/gateway/proxy/test_proxy.h"
#include "tests/gateway/upstream/model_provider.h"
#include "tests/gateway/upstream/telling_log.h"
#include "tests/wait_until.h"

namespace kvgate::proxy::handler {
namespace {

using std::chrono::milliseconds;
using test::ModelProvider;
using test::TestProxy;
using test::TestRequest;
using test::TestSink;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

std::string Chat(std::string_view model, std::string_view prompt, bool stream = false) {
  return fmt::format(R"({{"model":"{}","messages":[{{"role":"user","content":"{}"}}]{}}})", model,
                     prompt, stream ? R"(,"stream":true)" : "");
}

TEST(GenerationTest, TheLocalModelAnswersWholeAndInEvents) {
  TestProxy proxy;
  TestSink whole(proxy.io());
  proxy.Serve({.body = Chat("local", "hi")}, whole);
  EXPECT_EQ(whole.status, 200);
  EXPECT_TRUE(whole.is_complete);
  EXPECT_THAT(whole.body, HasSubstr("Hello world!"));
  TestSink stream(proxy.io());
  proxy.Serve({.body = Chat("local", "hi", true)}, stream);
  EXPECT_TRUE(stream.is_complete);
  EXPECT_TRUE(stream.body.ends_with("data: [DONE]\n\n"));
}

TEST(GenerationTest, ASilentStreamIsKeptAliveByPings) {
  TestProxy proxy({.script = {.first_delay = milliseconds(400)},
                   .options = {.ping_interval = milliseconds(50), .head_delay = milliseconds(50)}});
  TestSink sink(proxy.io());
  proxy.Serve({.body = Chat("local", "hi", true)}, sink);
  EXPECT_THAT(sink.body, HasSubstr(": ping\n\n"));
  EXPECT_TRUE(sink.body.ends_with("data: [DONE]\n\n"));
}

TEST(GenerationTest, ACallerThatLeavesEndsTheLocalAnswer) {
  TestProxy proxy({.script = {.piece_delay = milliseconds(5), .forever = true}});
  TestSink sink(proxy.io());
  sink.leaves_at = 3;
  proxy.Serve({.body = Chat("local", "hi", true)}, sink);
  EXPECT_FALSE(sink.is_complete);
  EXPECT_EQ(sink.num_pieces, 3u);
  EXPECT_EQ(proxy.gateway.metrics.client_disconnects.value(), 1u);
  TestSink before(proxy.io());
  proxy.Serve({.body = Chat("local", "hi")}, before, [&before] { before.Leave(); });
  EXPECT_EQ(before.status, 0);
  EXPECT_EQ(proxy.gateway.metrics.client_disconnects.value(), 2u);
}

TEST(GenerationTest, AnAnswerThatIsToEndSaysSo) {
  TestProxy proxy({.script = {.piece_delay = milliseconds(5), .forever = true}});
  TestSink sink(proxy.io());
  sink.write_delay = milliseconds(1);
  boost::asio::steady_timer later(proxy.io(), milliseconds(100));
  later.async_wait([&sink](const auto&) { sink.End(); });
  proxy.Serve({.body = Chat("local", "hi", true)}, sink);
  EXPECT_TRUE(sink.is_complete);
  EXPECT_THAT(sink.body, HasSubstr("the request was cancelled"));
}

TEST(GenerationTest, AnUpstreamsBytesArePassedOnAsTheyAre) {
  ModelProvider openai("openai");
  TestProxy proxy({.targets = {.upstreams = {openai.Config({"gpt-*"})}}});
  TestSink whole(proxy.io());
  proxy.Serve({.body = Chat("gpt-1", "hi"), .fields = {{"content-type", "application/json"}}},
              whole);
  EXPECT_EQ(whole.status, 200);
  EXPECT_TRUE(whole.body.starts_with(R"({"id":"c1")"));
  TestSink stream(proxy.io());
  proxy.Serve({.body = Chat("gpt-1", "hi", true)}, stream);
  EXPECT_TRUE(stream.is_complete);
  EXPECT_TRUE(stream.body.ends_with("data: [DONE]\n\n"));
  ASSERT_THAT(openai.requests(), SizeIs(2));
  EXPECT_TRUE(openai.requests()[0].ends_with(Chat("gpt-1", "hi")));
}

TEST(GenerationTest, AnUpstreamOfAnotherDialectIsTranslated) {
  ModelProvider anthropic("anthropic", "anthropic");
  TestProxy proxy({.targets = {.upstreams = {anthropic.Config({"claude-*"})}}});
  for (const bool streams : {false, true}) {
    TestSink sink(proxy.io());
    proxy.Serve({.body = Chat("claude-1", "hi", streams)}, sink);
    EXPECT_EQ(sink.status, 200);
    EXPECT_TRUE(sink.is_complete);
    EXPECT_THAT(sink.body, HasSubstr("Hello"));
    EXPECT_THAT(sink.body, HasSubstr("chat.completion"));
  }
  ASSERT_THAT(anthropic.requests(), SizeIs(2));
  EXPECT_THAT(anthropic.requests()[0], HasSubstr("POST /v1/messages"));
}

TEST(GenerationTest, TheNextTargetAnswersWhereOneFailsAndNothingIsSentBefore) {
  ModelProvider first("first");
  ModelProvider second("second", "anthropic");
  TestProxy proxy({.targets = {.upstreams = {first.Config({"a-*"}), second.Config({"b-*"})},
                               .routes = {{.models = {"coder-*"},
                                           .targets = {"first/a-1"},
                                           .fallback = {"second/b-1", "local"}}}}});
  TestSink moved(proxy.io());
  proxy.Serve({.body = Chat("coder-1", "fail-first")}, moved);
  EXPECT_EQ(moved.status, 200);
  EXPECT_THAT(moved.body, HasSubstr("Hello"));
  EXPECT_THAT(first.requests().at(0), HasSubstr(R"("model":"a-1")"));
  EXPECT_THAT(second.requests().at(0), HasSubstr(R"("model":"b-1")"));
  TestSink local(proxy.io());
  proxy.Serve({.body = Chat("coder-1", "fail-first fail-second")}, local);
  EXPECT_THAT(local.body, HasSubstr("Hello world!"));
  TestSink as_it_is(proxy.io());
  proxy.Serve({.body = Chat("coder-1", "refuse-me")}, as_it_is);
  EXPECT_EQ(as_it_is.status, 400) << "what is wrong with the request is no failure of the target";
}

TEST(GenerationTest, ARequestThatEndsWhileItWaitsForAnothersPrefixAsksNobody) {
  const std::string rules(8'000, 'r');
  const auto ask = [&](std::string_view prompt) {
    return TestRequest{
        .body = fmt::format(R"({{"model":"gpt-1","messages":[{{"role":"system","content":"{}"}},)"
                            R"({{"role":"user","content":"{}"}}]}})",
                            rules, prompt)};
  };
  for (const bool leaves : {true, false}) {
    ModelProvider openai("openai");
    service::Prompts prompts{{}};
    TestProxy proxy({.targets = {.upstreams = {openai.Config({"gpt-*"})},
                                 .routes = {{.models = {"gpt-*"},
                                             .targets = {"openai"},
                                             .single_flight_ms = 60'000}}},
                     .options = {.prompts = &prompts}});
    const TestRequest first = ask("hold-the-head");
    const TestRequest second = ask("hi");
    TestSink leader(proxy.io());
    TestSink follower(proxy.io());
    bool is_led = false;
    bool has_followed = false;
    proxy.Begin(first, leader, is_led);
    ASSERT_TRUE(test::WaitUntil(
        [&] {
          proxy.io().poll();
          return openai.num_held() == 1;
        },
        "the provider holds the first answer"));
    proxy.Begin(second, follower, has_followed);
    EXPECT_TRUE(test::WaitUntil(
        [&] {
          proxy.io().poll();
          leaves ? follower.Leave() : follower.End();
          return has_followed;
        },
        "the second request ends"));
    EXPECT_EQ(follower.status, leaves ? 0 : 503);
    leader.Leave();
    proxy.RunUntil(is_led);
    EXPECT_THAT(openai.requests(), SizeIs(1));
  }
}

TEST(GenerationTest, ARefusalOfARoutedRequestHasARecord) {
  ::setenv("KVGATE_TEST_ROUTED_KEY", "routed-key", 1);
  config::KeyConfig key;
  key.name = "team";
  key.key_env = "KVGATE_TEST_ROUTED_KEY";
  key.models = {"gpt-*"};
  ModelProvider openai("openai");
  test::TellingLog log;
  TestProxy proxy({.targets = {.upstreams = {openai.Config({"gpt-*"})},
                               .routes = {{.models = {"coder-*"}, .targets = {"openai/gpt-1"}}},
                               .keys = {key}},
                   .options = {.exchange_log = &log}});
  TestSink sink(proxy.io());
  proxy.Serve({.body = Chat("coder-1", "hi"), .fields = {{"x-kvgate-key", "routed-key"}}}, sink);
  EXPECT_GE(sink.status, 400);
  EXPECT_THAT(log.Take(), SizeIs(1));
  EXPECT_EQ(log.last_end().outcome, upstream::ExchangeOutcome::kRefused);
  EXPECT_EQ(log.last_end().status, sink.status);
  EXPECT_THAT(openai.requests(), SizeIs(0));
}

TEST(GenerationTest, ACallerThatLeavesEndsTheUpstreamsAnswer) {
  std::atomic<bool> is_ended{false};
  test::ScriptedUpstream endless([&](test::Peer& peer, int) {
    peer.ReadRequest();
    peer.Send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
    while (peer.Send("data: x\n\n") && !peer.WaitForEnd(milliseconds(5))) {
    }
    is_ended = true;
  });
  config::UpstreamConfig config;
  config.name = "endless";
  config.base_url = endless.url();
  TestProxy proxy({.targets = {.upstreams = {config}}});
  TestSink sink(proxy.io());
  sink.leaves_at = 2;
  proxy.Serve({.body = Chat("gpt-1", "hi", true)}, sink);
  EXPECT_EQ(sink.num_pieces, 2u);
  EXPECT_TRUE(test::WaitUntil([&] { return is_ended.load(); }, "the upstream is let go"));
}

TEST(GenerationTest, AnUpstreamThatIsCutIsSaidToBe) {
  test::ScriptedUpstream cut([](test::Peer& peer, int) {
    peer.ReadRequest();
    peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
  });
  config::UpstreamConfig config;
  config.name = "cut";
  config.base_url = cut.url();
  TestProxy proxy({.targets = {.upstreams = {config}}});
  TestSink sink(proxy.io());
  proxy.Serve({.body = Chat("gpt-1", "hi")}, sink);
  EXPECT_EQ(sink.body, "half");
  EXPECT_TRUE(sink.is_cut);
  EXPECT_FALSE(sink.is_complete);
}

TEST(GenerationTest, APrivateRequestDoesNotLeaveTheMachine) {
  ModelProvider openai("openai");
  TestProxy proxy({.targets = {.upstreams = {openai.Config({"gpt-*"})}}});
  TestSink sink(proxy.io());
  proxy.Serve({.body = Chat("gpt-1", "hi"), .fields = {{"x-kvgate-private", "1"}}}, sink);
  EXPECT_EQ(sink.status, 403);
  EXPECT_THAT(openai.requests(), SizeIs(0));
}

}  // namespace
}  // namespace kvgate::proxy::handler
