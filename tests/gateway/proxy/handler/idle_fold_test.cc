#include "gateway/proxy/handler/idle_fold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "tests/gateway/proxy/session_proxy.h"
#include "tests/gateway/upstream/model_provider.h"
#include "tests/wait_until.h"

namespace kvgate::proxy::handler {
namespace {

using session::window::Mode;
using test::ModelProvider;
using test::SessionProxy;

// The provider keeps a prefix for two seconds; writing it costs that many times its input.
ledger::Prices TwoSeconds(int write) {
  auto prices = ledger::Prices::Parse(
      R"({"date":"2026-11","providers":{"openai":[{"models":["*"],"input":1,"output":1,)"
      R"("cache_read_factor":0.01,"cache_write_factor":)" +
          std::to_string(write) +
          R"(,"source":"test","date":"2026-11",)"
          R"("rules":{"ttl_seconds":2}}]}})",
      "test");
  EXPECT_TRUE(prices) << prices.error().detail;
  return *prices;
}

class IdleFoldTest : public ::testing::Test {
 protected:
  IdleFoldTest() {
    ::setenv("KVGATE_TEST_FOLD_KEY", "sk-operator", 1);
    provider.CountBytes();
  }
  config::UpstreamConfig Upstream(bool has_key) {
    config::UpstreamConfig config = provider.Config({"gpt-*"});
    if (has_key) config.api_key_env = "KVGATE_TEST_FOLD_KEY";
    return config;
  }
  std::unique_ptr<SessionProxy> Make(bool has_key, bool folds_idle = true) {
    return std::make_unique<SessionProxy>(
        test::Script(), request::TargetOptions{.upstreams = {Upstream(has_key)}},
        session::window::Settings{
            .mode = Mode::kSummary, .hard = 100'000, .summary_tokens_max = 10},
        true, session::Sessions::Options{.folds_idle = folds_idle}, &prices);
  }
  static void Say(SessionProxy& session, int number) {
    session.Say(
        fmt::format(R"({{"model":"gpt-1","messages":[{{"role":"user","content":"{} {}"}}]}})",
                    number, std::string(400, 'x')),
        {{"authorization", "Bearer sk-callers"}});
  }
  // Waits until nobody waits beside a session any more.
  static void Settle(SessionProxy& session) {
    EXPECT_TRUE(test::WaitUntil(
        [&] {
          session.proxy.io().poll();
          return session.proxy.environment().waiting->size() == 0;
        },
        "what is due has happened"));
  }

  ledger::Prices prices = TwoSeconds(9);
  ModelProvider provider{"up"};
};

TEST_F(IdleFoldTest, ASessionThatIsLeftIsFoldedBeforeItsPrefixIsGone) {
  const auto session = Make(/*has_key=*/true);
  for (int turn = 1; turn <= 6; ++turn) Say(*session, turn);
  EXPECT_EQ(session->sessions.idle().size(), 1u);
  Settle(*session);
  EXPECT_EQ(session->sessions.folds().counts().num_stored, 1u);
  const auto requests = provider.requests();
  EXPECT_THAT(requests.back(), testing::AllOf(testing::HasSubstr("## Goals"),
                                              testing::HasSubstr("Bearer sk-operator")));
  EXPECT_EQ(session->sessions.idle().size(), 0u);
}

TEST_F(IdleFoldTest, WithoutAKeyOfTheUpstreamsOrWhereItIsOffNothingWaits) {
  for (const auto& session : {Make(/*has_key=*/false), Make(/*has_key=*/true, false)}) {
    Say(*session, 1);
    EXPECT_EQ(session->sessions.idle().size(), 0u);
    EXPECT_EQ(session->proxy.environment().waiting->size(), 0u);
  }
}

TEST_F(IdleFoldTest, WhatDoesNotPayIsLeftAlone) {
  prices = TwoSeconds(0);
  const auto session = Make(/*has_key=*/true);
  Say(*session, 1);
  Say(*session, 2);
  Settle(*session);
  EXPECT_EQ(session->sessions.folds().counts().num_stored, 0u);
  EXPECT_EQ(provider.requests().size(), 2u);
}

TEST_F(IdleFoldTest, ItEndsWithTheServer) {
  const auto session = Make(/*has_key=*/true);
  Say(*session, 1);
  session->proxy.environment().waiting->CancelAll();
  Settle(*session);
  EXPECT_EQ(provider.requests().size(), 1u);
}

}  // namespace
}  // namespace kvgate::proxy::handler
