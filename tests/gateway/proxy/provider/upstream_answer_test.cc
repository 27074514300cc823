#include "gateway/proxy/provider/upstream_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gateway/proxy/provider/asked_upstream.h"
#include "tests/gateway/upstream/model_provider.h"

namespace kvgate::proxy::provider {
namespace {

using test::ChatBody;
using test::Http;
using test::ModelProvider;
using test::Peer;
using test::ScriptedUpstream;
using test::TellingLog;
using test::TestProxy;
using test::TestRequest;
using test::TestSink;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using upstream::ExchangeOutcome;

// One request for a gateway with these upstreams.
struct Asked {
  struct Setup {
    std::vector<config::UpstreamConfig> upstreams;
    TestRequest request = {.body = ChatBody()};
  };
  explicit Asked(Setup setup)
      : ask(std::move(setup.request)),
        proxy({.targets = {.upstreams = std::move(setup.upstreams)},
               .options = {.exchange_log = &log}}),
        sink(proxy.io()),
        request(proxy.Open(ask, sink)) {}

  // Delivers the answer; false if another target is to be asked.
  bool Deliver(UpstreamAnswer::Options options = {}, std::function<void()> beside = {}) {
    UpstreamAnswer answer(*request, options);
    return proxy.Run(provider::Deliver(answer, *request), std::move(beside));
  }
  uint64_t Counted(std::string_view status) {
    return proxy.gateway.metrics.requests.With({"/v1/chat/completions", status}).value();
  }

  TellingLog log;
  const TestRequest ask;
  TestProxy proxy;
  TestSink sink;
  std::unique_ptr<request::RequestContext> request;
};

config::UpstreamConfig Config(const ScriptedUpstream& server) {
  config::UpstreamConfig config;
  config.name = "up";
  config.base_url = server.url();
  config.breaker_failures = 0;
  return config;
}

// Answers every request with these bytes, and ends the connection.
ScriptedUpstream::Script Says(std::string answer) {
  return [answer = std::move(answer)](Peer& peer, int) {
    peer.ReadRequest();
    peer.Send(answer);
  };
}

TEST(UpstreamAnswerTest, ARequestForNobodyIsRefusedAndHasARecord) {
  ModelProvider provider("openai");
  Asked model({.upstreams = {provider.Config({"gpt-*"})}});
  EXPECT_TRUE(model.Deliver());
  EXPECT_EQ(model.sink.status, 404);
  EXPECT_EQ(model.log.last_end().outcome, ExchangeOutcome::kRefused);
  EXPECT_EQ(model.log.last_end().status, 404);
  Asked name({.upstreams = {provider.Config({"*"})},
              .request = {.body = ChatBody(), .fields = {{"x-kvgate-upstream", "other"}}}});
  EXPECT_TRUE(name.Deliver());
  EXPECT_EQ(name.sink.status, 404);
  Asked path({.upstreams = {provider.Config({"*"})}});
  EXPECT_TRUE(path.Deliver({.is_unknown_path = true}));
  EXPECT_EQ(path.sink.status, 404);
  Asked secret({.upstreams = {provider.Config({"*"})},
                .request = {.body = ChatBody(), .fields = {{"x-kvgate-private", "1"}}}});
  EXPECT_TRUE(secret.Deliver());
  EXPECT_EQ(secret.sink.status, 403);
  EXPECT_THAT(provider.requests(), ElementsAre());
}

TEST(UpstreamAnswerTest, AnUpstreamThatIsNotThereIsABadGateway) {
  config::UpstreamConfig nobody;
  nobody.name = "up";
  nobody.base_url = "http://127.0.0.1:1/v1";
  Asked asked({.upstreams = {nobody}});
  EXPECT_TRUE(asked.Deliver());
  EXPECT_EQ(asked.sink.status, 502);
  EXPECT_EQ(asked.log.last_end().outcome, ExchangeOutcome::kFailed);
}

TEST(UpstreamAnswerTest, AnUpstreamWithoutAFreeConnectionIsOverloaded) {
  ModelProvider provider("openai");
  config::UpstreamConfig config = provider.Config({"*"});
  config.connections = 0;
  Asked asked({.upstreams = {config}});
  EXPECT_TRUE(asked.Deliver());
  EXPECT_EQ(asked.sink.status, 503);
  ASSERT_EQ(asked.sink.fields.size(), 1u);
  EXPECT_EQ(asked.sink.fields[0].first, "retry-after");
  EXPECT_EQ(asked.log.last_end().outcome, ExchangeOutcome::kRefused);
}

TEST(UpstreamAnswerTest, NobodyIsAskedForAClientThatHasLeftAlready) {
  ModelProvider provider("openai");
  Asked left({.upstreams = {provider.Config({"*"})}});
  left.sink.Leave();
  EXPECT_TRUE(left.Deliver({.has_next = true}));
  EXPECT_EQ(left.log.last_end().outcome, ExchangeOutcome::kClientLeft);
  EXPECT_EQ(left.log.last_end().status, 499);
  EXPECT_EQ(left.Counted("499"), 1u);
  Asked given_up({.upstreams = {provider.Config({"*"})}});
  given_up.sink.Cancel();
  EXPECT_TRUE(given_up.Deliver());
  EXPECT_EQ(given_up.log.last_end().status, 503);
  EXPECT_EQ(given_up.Counted("503"), 1u);
  EXPECT_THAT(provider.requests(), ElementsAre());
}

TEST(UpstreamAnswerTest, AnOpenBreakerRefusesWithoutAsking) {
  ScriptedUpstream down(Says(""));
  config::UpstreamConfig config = Config(down);
  config.breaker_failures = 1;
  config.retry = "none";
  Asked asked({.upstreams = {config}});
  EXPECT_TRUE(asked.Deliver());
  EXPECT_EQ(asked.sink.status, 502);
  const int before = down.num_connections();
  TestSink second(asked.proxy.io());
  asked.proxy.Serve(asked.ask, second);
  EXPECT_EQ(second.status, 503);
  EXPECT_EQ(asked.log.last_end().outcome, ExchangeOutcome::kRefused);
  EXPECT_EQ(down.num_connections(), before);
}

TEST(UpstreamAnswerTest, ASilentUpstreamIsGivenUpAfterItsTime) {
  ScriptedUpstream silent([](Peer& peer, int) {
    peer.ReadRequest();
    peer.WaitForEnd(std::chrono::seconds(60));
  });
  config::UpstreamConfig config = Config(silent);
  config.first_byte_timeout_seconds = 0;  // the next tick is late enough
  Asked asked({.upstreams = {config}});
  EXPECT_TRUE(asked.Deliver());
  EXPECT_EQ(asked.sink.status, 504);
  EXPECT_EQ(asked.log.last_end().outcome, ExchangeOutcome::kFailed);
}

TEST(UpstreamAnswerTest, AFailureIsLeftToTheNextTargetIfThereIsOne) {
  ScriptedUpstream busy(Says(Http("503 Busy", "{}")));
  ScriptedUpstream down(Says(""));
  for (const ScriptedUpstream* const server : {&busy, &down}) {
    Asked asked({.upstreams = {Config(*server)}});
    EXPECT_FALSE(asked.Deliver({.has_next = true}));
    EXPECT_EQ(asked.sink.status, 0);
    EXPECT_TRUE(asked.log.last_end().superseded);
    EXPECT_EQ(asked.request->body().bytes(), ChatBody()) << "the next target needs it";
  }
  Asked last({.upstreams = {Config(busy)}});
  EXPECT_TRUE(last.Deliver());
  EXPECT_EQ(last.sink.status, 503) << "the last target's answer is passed on";
  EXPECT_FALSE(last.log.last_end().superseded);
  // What is wrong with the request is wrong with it everywhere.
  ScriptedUpstream refusing(Says(Http("400 No", "{}")));
  Asked refused({.upstreams = {Config(refusing)}});
  EXPECT_TRUE(refused.Deliver({.has_next = true}));
  EXPECT_EQ(refused.sink.status, 400);
}

TEST(UpstreamAnswerTest, ALargeBodyIsGivenBackForTheNextTarget) {
  ScriptedUpstream busy(Says(Http("503 Busy", "{}")));
  std::string body = ChatBody();
  body.insert(body.size() - 1, R"(,"user":")" + std::string(300'000, 'u') + '"');
  Asked asked({.upstreams = {Config(busy)}, .request = {.body = body}});
  EXPECT_FALSE(asked.Deliver({.has_next = true}));
  EXPECT_EQ(asked.request->body().bytes(), body);
}

TEST(UpstreamAnswerTest, AClientThatLeavesIsNotPassedToTheNextTarget) {
  ModelProvider provider("openai");
  Asked asked({.upstreams = {provider.Config({"*"})},
               .request = {.body = R"({"model":"m","messages":"hold-the-head"})"}});
  EXPECT_TRUE(asked.Deliver({.has_next = true}, [&] { asked.sink.Leave(); }));
  EXPECT_EQ(asked.sink.status, 0);
  EXPECT_EQ(asked.log.last_end().outcome, ExchangeOutcome::kClientLeft);
  EXPECT_EQ(asked.log.last_end().status, 499);
  EXPECT_EQ(asked.Counted("499"), 1u);
  EXPECT_EQ(asked.proxy.gateway.metrics.client_disconnects.value(), 1u);
}

TEST(UpstreamAnswerTest, AServerThatEndsSaysSoAndDoesNotCountItAsLeaving) {
  ModelProvider provider("openai");
  const TestRequest request = {.body = R"({"model":"m","messages":"hold-the-head"})"};
  Asked ended({.upstreams = {provider.Config({"*"})}, .request = request});
  EXPECT_TRUE(ended.Deliver({.has_next = true}, [&] { ended.sink.End(); })) << "nobody is next";
  EXPECT_EQ(ended.sink.status, 503) << "the client is there to read it";
  Asked cancelled({.upstreams = {provider.Config({"*"})}, .request = request});
  EXPECT_TRUE(cancelled.Deliver({}, [&] { cancelled.sink.Cancel(); }));
  EXPECT_EQ(cancelled.sink.status, 0);
  EXPECT_EQ(cancelled.log.last_end().status, 503);
  EXPECT_EQ(cancelled.proxy.gateway.metrics.client_disconnects.value(), 0u);
}

TEST(UpstreamAnswerTest, AClientThatLeavesATranslatedAnswerThatHasNotBegunLeavesBefore) {
  ModelProvider provider("anthropic", "anthropic");
  Asked asked({.upstreams = {provider.Config({"*"})},
               .request = {.body = R"({"model":"m","messages":[{"role":"user",)"
                                   R"("content":"hold-the-rest"}]})"}});
  boost::asio::steady_timer timer(asked.proxy.io());
  std::function<void()> look = [&] {
    if (asked.log.HasHeard("Hel")) {
      asked.sink.Leave();
      return;
    }
    timer.expires_after(std::chrono::milliseconds(1));
    timer.async_wait([&](const auto&) { look(); });
  };
  EXPECT_TRUE(asked.Deliver({}, look));
  EXPECT_EQ(asked.log.last_end().status, 499) << "not the 200 that nobody got";
  EXPECT_EQ(asked.Counted("499"), 1u);
  EXPECT_EQ(asked.proxy.gateway.metrics.client_disconnects.value(), 1u);
}

TEST(UpstreamAnswerTest, ABodyIsNotHeldDuringItsAnswer) {
  ModelProvider provider("openai");
  Asked asked({.upstreams = {provider.Config({"*"})}});
  ASSERT_TRUE(asked.request->body().lease().GrowTo(ChatBody().size()));
  EXPECT_TRUE(asked.Deliver());
  EXPECT_EQ(asked.sink.status, 200);
  EXPECT_EQ(asked.proxy.bodies().bytes(), 0u);
  EXPECT_EQ(asked.request->body().bytes(), "");
}

TEST(UpstreamAnswerTest, WhereNobodyCountsTokensTheyAreEstimated) {
  ModelProvider provider("openai");
  Asked asked({.upstreams = {provider.Config({"*"})},
               .request = {.path = "/v1/messages/count_tokens",
                           .body = R"({"model":"m","messages":[{"role":"user",)"
                                   R"("content":"hello there"}]})"}});
  EXPECT_TRUE(asked.Deliver());
  EXPECT_EQ(asked.sink.status, 200);
  EXPECT_THAT(asked.sink.body, HasSubstr("input_tokens"));
  EXPECT_THAT(provider.requests(), ElementsAre());
  Asked wrong({.upstreams = {provider.Config({"*"})},
               .request = {.path = "/v1/messages/count_tokens", .body = R"({"model":"m"})"}});
  EXPECT_TRUE(wrong.Deliver());
  EXPECT_EQ(wrong.sink.status, 400);
}

TEST(UpstreamAnswerTest, FollowersGoOnWhenTheLeaderIsAnsweredNotWhenItFailsForTheNext) {
  ScriptedUpstream busy(Says(Http("503 Busy", "{}")));
  ModelProvider provider("openai");
  route::SingleFlight flights({});
  prompt::parse::Identity prefix{};
  for (const bool is_answered : {false, true}) {
    const auto now = std::chrono::steady_clock::now();
    const auto leader = flights.Join(
        prefix, [] {}, now);
    const auto follower = flights.Join(
        prefix, [] {}, now);
    ASSERT_TRUE(leader->leads());
    ASSERT_FALSE(follower->leads());
    Asked asked({.upstreams = {is_answered ? provider.Config({"*"}) : Config(busy)}});
    EXPECT_EQ(asked.Deliver({.has_next = true, .participant = leader.get()}), is_answered);
    EXPECT_EQ(follower->completed(), is_answered);
  }
}

}  // namespace
}  // namespace kvgate::proxy::provider
