#include "gateway/proxy/handler/fold_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "gateway/session/log/history.h"
#include "gateway/session/session_admin.h"
#include "tests/base/temp_folder.h"
#include "tests/gateway/proxy/session_proxy.h"
#include "tests/gateway/upstream/model_provider.h"
#include "tests/wait_until.h"

namespace kvgate::proxy::handler {
namespace {

using session::window::Mode;
using test::ModelProvider;
using test::SessionProxy;
using test::TestSink;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

// A byte is a token of the fake engine and of the fake provider.
const session::window::Settings kWindow{
    .mode = Mode::kSummary, .high = 1200, .low = 700, .hard = 3000, .summary_tokens_max = 40};

std::string Body(std::string_view model, std::string_view text) {
  return fmt::format(R"({{"model":"{}","max_tokens":64,"messages":[{{"role":"user","content":)"
                     R"("{}"}}]}})",
                     model, text);
}
std::string Words(int number) { return fmt::format("turn {} {}", number, std::string(60, 'x')); }

// Lets what goes on in the background come to its end.
void Settle(SessionProxy& session) {
  ASSERT_TRUE(test::WaitUntil(
      [&] {
        session.proxy.io().poll();
        return session.proxy.environment().background->size() == 0;
      },
      "the background is idle"));
}

session::log::History HistoryOf(SessionProxy& session) {
  const session::log::SessionLog::Place place{.tenant = session.tenant, .key = "k"};
  const auto root = session.sessions.session_log().Find(place);
  return session::log::HistoryOf(*session.sessions.session_log().All(place, *root));
}

// Says turns until the session has a summary, or too many.
int SayUntilFolded(SessionProxy& session, std::string_view model,
                   const SessionProxy::Fields& more = {}) {
  for (int turn = 1; turn <= 20; ++turn) {
    const auto said = session.Say(Body(model, Words(turn)), more);
    EXPECT_EQ(said->status, 200) << said->body;
    Settle(session);
    if (HistoryOf(session).summary) return turn;
  }
  return 0;
}

TEST(FoldRunnerTest, TheLocalModelFoldsInTheBackground) {
  SessionProxy session({}, {}, kWindow);
  const int turns = SayUntilFolded(session, "local");
  ASSERT_GT(turns, 0);
  const session::log::History history = HistoryOf(session);
  EXPECT_EQ(history.summary->text, "Hello world!");
  EXPECT_EQ(history.summary->prompt, "builtin@1");
  EXPECT_GT(history.num_left_out, 0u);
  EXPECT_EQ(history.depth, static_cast<uint64_t>(turns));
  const auto next = session.Say(Body("local", "next"));
  EXPECT_THAT(next->compaction, StartsWith("done;before="));
  EXPECT_THAT(session.Prompt(), AllOf(StartsWith("user: <summary>"), HasSubstr("Hello world!"),
                                      Not(HasSubstr("turn 1 ")), HasSubstr("user: next")));
  EXPECT_EQ(session.Say(Body("local", "more"))->compaction, "none");
  EXPECT_EQ(session.sessions.folds().counts().num_stored, 1u);
}

TEST(FoldRunnerTest, AnUpstreamWithItsOwnKeyIsAskedWithThat) {
  ::setenv("KVGATE_TEST_FOLD_KEY", "sk-operator", 1);
  ModelProvider provider("up");
  provider.CountBytes();
  config::UpstreamConfig config = provider.Config({"gpt-*"});
  config.api_key_env = "KVGATE_TEST_FOLD_KEY";
  SessionProxy session({}, {.upstreams = {config}}, kWindow);
  const int turns = SayUntilFolded(session, "gpt-1", {{"idempotency-key", "once"}});
  ASSERT_GT(turns, 0);
  const auto requests = provider.requests();
  ASSERT_THAT(requests, SizeIs(turns + 1));
  const std::string& asked = requests.back();
  EXPECT_THAT(asked, HasSubstr("Bearer sk-operator"));
  EXPECT_THAT(asked,
              AllOf(HasSubstr("turn 1 "), HasSubstr("## Goals"), HasSubstr("\"stream\":false")));
  EXPECT_THAT(asked, AllOf(Not(HasSubstr("x-kvgate")), Not(HasSubstr("idempotency"))));
  // All that the last turn sent is sent again.
  const std::string& last = requests[requests.size() - 2];
  const size_t begin = last.find("\"messages\":");
  EXPECT_THAT(asked, HasSubstr(last.substr(begin, last.rfind("}]") - begin)));
}

TEST(FoldRunnerTest, ACallersKeyIsNeverUsedAfterItsRequest) {
  ModelProvider provider("up");
  provider.CountBytes();
  SessionProxy session({}, {.upstreams = {provider.Config({"gpt-*"})}}, kWindow);
  const SessionProxy::Fields key = {{"authorization", "Bearer sk-callers"}};
  const std::string tenant = local::TenantOf("Bearer sk-callers");
  bool has_dropped = false;
  for (int turn = 1; turn <= 30; ++turn) {
    const auto said = session.Say(Body("gpt-1", Words(turn)), key);
    EXPECT_EQ(said->status, 200);
    has_dropped = has_dropped || said->compaction.starts_with("done;");
    Settle(session);
  }
  EXPECT_TRUE(has_dropped);
  EXPECT_THAT(provider.requests(), SizeIs(30));
  EXPECT_EQ(session.sessions.folds().counts().num_stored, 0u);
}

TEST(FoldRunnerTest, WhatFailsChangesNothingAndIsNotTriedEveryTurn) {
  ::setenv("KVGATE_TEST_FOLD_KEY", "sk-operator", 1);
  const TempFolder folder;
  const std::string file = folder / "prompt.txt";
  std::ofstream(file) << "fail-up {{part}}";
  const auto prompt = session::summary::SummaryPrompt::Load(file);
  ASSERT_TRUE(prompt);
  ModelProvider provider("up");
  provider.CountBytes();
  config::UpstreamConfig config = provider.Config({"gpt-*"});
  config.api_key_env = "KVGATE_TEST_FOLD_KEY";
  SessionProxy session({}, {.upstreams = {config}}, kWindow, true, {.prompt = *prompt});
  bool has_dropped = false;
  constexpr int kTurns = 60;
  for (int turn = 1; turn <= kTurns; ++turn) {
    const auto said = session.Say(Body("gpt-1", Words(turn)));
    EXPECT_EQ(said->status, 200) << said->body;
    has_dropped = has_dropped || said->compaction.starts_with("done;");
    Settle(session);
  }
  // The hard window holds all the same.
  EXPECT_TRUE(has_dropped);
  const auto counts = session.sessions.folds().counts();
  EXPECT_EQ(counts.num_stored, 0u);
  EXPECT_GE(counts.num_failed, 2u);
  EXPECT_LE(counts.num_failed, 5u);
  EXPECT_EQ(session.num_turns(), static_cast<size_t>(kTurns));
}

TEST(FoldRunnerTest, TargetsAreTheLocalEngineOrUpstreamsWithOrWithoutAKey) {
  ::setenv("KVGATE_TEST_FOLD_KEY", "sk-operator", 1);
  ModelProvider with("with");
  ModelProvider without("without");
  config::UpstreamConfig own = with.Config({"own-*"});
  own.api_key_env = "KVGATE_TEST_FOLD_KEY";
  SessionProxy session({}, {.upstreams = {own, without.Config({"gpt-*"})}});
  TestSink sink(session.proxy.io());
  const test::TestRequest request =
      session.Request(Body("gpt-1", "x"), {{"authorization", "Bearer sk"}});
  const auto context = session.proxy.Open(request, sink);
  using dialect::form::Dialect;
  const auto target = [&](const char* model) {
    return FoldTargetOf(*context, Dialect::kChatCompletions, model);
  };
  EXPECT_TRUE(target("local").is_local);
  EXPECT_FALSE(target("local").needs_callers_key);
  EXPECT_FALSE(target("own-1").is_local);
  EXPECT_FALSE(target("own-1").needs_callers_key);
  EXPECT_TRUE(target("gpt-1").needs_callers_key);
  const auto nobody = session.proxy.Open(session.Request(Body("gpt-1", "x")), sink);
  EXPECT_FALSE(FoldTargetOf(*nobody, Dialect::kChatCompletions, "gpt-1").needs_callers_key);
}

}  // namespace
}  // namespace kvgate::proxy::handler
