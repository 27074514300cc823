#include "gateway/proxy/handler/session_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gateway/proxy/session_proxy.h"
#include "tests/gateway/upstream/model_provider.h"

namespace kvgate::proxy::handler {
namespace {

using std::chrono::milliseconds;
using test::ModelProvider;
using test::SessionProxy;
using test::TestSink;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// A request of each dialect that says one thing.
struct Speech {
  std::string name;
  std::string path;
  std::string dialect;  // of an upstream that speaks it
  std::string Body(std::string_view model, std::string_view text, bool stream = false) const {
    const bool is_responses = path == "/v1/responses";
    return fmt::format(R"({{"model":"{}","{}":64,{}"{}":[{{"role":"user","content":"{}"}}]}})",
                       model, is_responses ? "max_output_tokens" : "max_tokens",
                       stream ? R"("stream":true,)" : "", is_responses ? "input" : "messages",
                       text);
  }
};

const Speech kChat{"chat", "/v1/chat/completions", "openai"};
const Speech kMessages{"messages", "/v1/messages", "anthropic"};
const Speech kResponses{"responses", "/v1/responses", "openai"};

class SessionDialectTest : public ::testing::TestWithParam<std::tuple<Speech, bool>> {
 protected:
  const Speech& speech() const { return std::get<0>(GetParam()); }
  bool streams() const { return std::get<1>(GetParam()); }
};

TEST_P(SessionDialectTest, TheLocalModelSeesWhatWasSaidBefore) {
  SessionProxy session;
  const auto first = session.Say(speech().Body("local", "one", streams()), {}, speech().path);
  EXPECT_EQ(first->status, 200) << first->body;
  EXPECT_TRUE(first->is_complete);
  EXPECT_EQ(first->compaction, "none");
  EXPECT_EQ(session.num_turns(), 1u);
  const auto second = session.Say(speech().Body("local", "two", streams()), {}, speech().path);
  EXPECT_EQ(second->status, 200) << second->body;
  EXPECT_EQ(session.Prompt(), "user: one\nassistant: Hello world!\nuser: two\nassistant:");
  EXPECT_EQ(session.num_turns(), 2u);
}

TEST_P(SessionDialectTest, AnUpstreamGetsItAndNotTheSessionsKey) {
  ModelProvider provider("up", speech().dialect);
  SessionProxy session({}, {.upstreams = {provider.Config({"gpt-*"})}});
  session.Say(speech().Body("gpt-1", "one", streams()), {}, speech().path);
  const auto second = session.Say(speech().Body("gpt-1", "two", streams()),
                                  {{"x-kvgate-session-wait", "1"}}, speech().path);
  EXPECT_EQ(second->status, 200) << second->body;
  EXPECT_TRUE(second->is_complete);
  ASSERT_THAT(provider.requests(), SizeIs(2));
  const std::string sent = provider.requests()[1];
  EXPECT_THAT(sent, HasSubstr(R"({"role":"user","content":"one"},{)"));
  EXPECT_THAT(sent, HasSubstr("Hello"));
  EXPECT_LT(sent.find("Hello"), sent.find("\"two\""));
  EXPECT_THAT(sent, Not(HasSubstr("x-kvgate")));
  EXPECT_EQ(session.num_turns(), 2u);
  EXPECT_EQ(second->compaction, "none");
}

TEST_P(SessionDialectTest, AnUpstreamOfAnotherDialectToo) {
  ModelProvider provider("up", speech().dialect == "openai" ? "anthropic" : "openai");
  SessionProxy session({}, {.upstreams = {provider.Config({"gpt-*"})}});
  session.Say(speech().Body("gpt-1", "one", streams()), {}, speech().path);
  const auto second = session.Say(speech().Body("gpt-1", "two", streams()), {}, speech().path);
  EXPECT_EQ(second->status, 200) << second->body;
  EXPECT_EQ(second->compaction, "none");
  ASSERT_THAT(provider.requests(), SizeIs(2));
  EXPECT_THAT(provider.requests()[1], HasSubstr("one"));
  EXPECT_THAT(provider.requests()[1], HasSubstr("Hello"));
  EXPECT_EQ(session.num_turns(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Dialects, SessionDialectTest,
                         ::testing::Combine(::testing::Values(kChat, kMessages, kResponses),
                                            ::testing::Bool()),
                         [](const auto& tried) {
                           return std::get<0>(tried.param).name +
                                  (std::get<1>(tried.param) ? "Streamed" : "Whole");
                         });

TEST(SessionStepTest, TheEndGoesOutOnlyOnceTheTurnIsStored) {
  SessionProxy session({.piece_delay = milliseconds(5)});
  const test::TestRequest request = session.Request(kChat.Body("local", "one", true));
  TestSink sink(session.proxy.io());
  bool is_done = false;
  session.meta.holds = true;
  session.proxy.Begin(request, sink, is_done);
  const auto has_said_all = [&] {
    session.proxy.io().poll();
    return sink.body.find("!") != std::string::npos;
  };
  ASSERT_TRUE(test::WaitUntil(has_said_all, "the answer has been said"));
  session.proxy.io().run_for(milliseconds(50));
  EXPECT_FALSE(is_done);
  EXPECT_THAT(sink.body, Not(HasSubstr(R"("finish_reason":"stop")")));
  session.meta.holds = false;
  session.proxy.RunUntil(is_done);
  EXPECT_TRUE(sink.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(session.num_turns(), 1u);
}

TEST(SessionStepTest, AnAnswerThatCannotBeStoredFails) {
  for (const Speech& speech : {kChat, kMessages, kResponses}) {
    SessionProxy session;
    session.meta.refuses = true;
    const auto whole = session.Say(speech.Body("local", "one"), {}, speech.path);
    EXPECT_EQ(whole->status, 500) << whole->body;
    EXPECT_THAT(whole->body, Not(HasSubstr("Hello")));
    const auto stream = session.Say(speech.Body("local", "one", true), {}, speech.path);
    EXPECT_TRUE(stream->is_complete);
    EXPECT_THAT(stream->body, HasSubstr("error")) << speech.name;
    for (const char* end : {"[DONE]", "message_stop", "response.completed"}) {
      EXPECT_THAT(stream->body, Not(HasSubstr(end))) << speech.name;
    }
    session.meta.refuses = false;
    EXPECT_EQ(session.num_turns(), 0u);
    EXPECT_EQ(session.Say(speech.Body("local", "two"), {}, speech.path)->status, 200);
    EXPECT_EQ(session.Prompt(), "user: two\nassistant:");
  }
}

// What was answered, and did not reach the client, is answered again and stands once in the prompt.
TEST(SessionStepTest, AnotherAttemptOfARequestIsNoTurnMore) {
  for (const Speech& speech : {kChat, kMessages, kResponses}) {
    const std::string first = speech.Body("local", "one");
    const std::string second = speech.Body("local", "two");
    for (const SessionProxy::Fields& again :
         {SessionProxy::Fields{{"x-stainless-retry-count", "1"}},
          SessionProxy::Fields{{"idempotency-key", "a"}}}) {
      SessionProxy session;
      const bool has_key = again.front().first == "idempotency-key";
      session.Say(first, {}, speech.path);
      session.Say(second, has_key ? again : SessionProxy::Fields{{"x-stainless-retry-count", "0"}},
                  speech.path);
      const std::string prompt = session.Prompt();
      EXPECT_EQ(session.Say(second, again, speech.path)->status, 200);
      EXPECT_EQ(session.Prompt(), prompt) << speech.name;
      // What is said next goes on from the new attempt; both are kept.
      session.Say(first, {{"idempotency-key", "b"}}, speech.path);
      EXPECT_EQ(session.Prompt(),
                "user: one\nassistant: Hello world!\nuser: two\nassistant: Hello "
                "world!\nuser: one\nassistant:");
      EXPECT_EQ(session.num_turns(), 4u);
    }
  }
}

TEST(SessionStepTest, WhoSaysTheSameTwiceSaysItTwice) {
  SessionProxy session;
  for (int i = 0; i < 2; ++i) {
    session.Say(kChat.Body("local", "one"), {{"idempotency-key", std::to_string(i)},
                                             {"x-stainless-retry-count", std::to_string(i)}});
  }
  EXPECT_EQ(session.Prompt(), "user: one\nassistant: Hello world!\nuser: one\nassistant:");
  session.Say(kChat.Body("local", "one"));
  EXPECT_THAT(session.Prompt(), HasSubstr("one\nassistant: Hello world!\nuser: one\nassistant: H"));
  // The first turn of a session, too.
  SessionProxy other;
  const SessionProxy::Fields again = {{"x-stainless-retry-count", "2"}};
  other.Say(kChat.Body("local", "one"), again);
  other.Say(kChat.Body("local", "one"), again);
  EXPECT_EQ(other.Prompt(), "user: one\nassistant:");
  EXPECT_EQ(other.Say(kChat.Body("local", "two"), again)->status, 200);
  EXPECT_EQ(other.Prompt(), "user: one\nassistant: Hello world!\nuser: two\nassistant:");
}

// The default window comes from what is known of the upstream's model.
TEST(SessionStepTest, AnUpstreamsContextIsTheWindow) {
  ModelProvider provider("up");
  config::UpstreamConfig config = provider.Config({"gpt-*"});
  provider.CountBytes();
  config.context_tokens = 1500;
  SessionProxy session({}, {.upstreams = {config}});
  bool is_done = false;
  for (int turn = 0; turn < 20 && !is_done; ++turn) {
    const auto said = session.Say(kChat.Body("gpt-1", std::string(200, 'x')));
    ASSERT_EQ(said->status, 200) << said->body;
    is_done = said->compaction.starts_with("done;");
  }
  EXPECT_TRUE(is_done);
}

TEST(SessionStepTest, WhatItsClientLeavesIsNotStored) {
  SessionProxy session({.piece_delay = milliseconds(5), .forever = true});
  const test::TestRequest request = session.Request(kChat.Body("local", "one", true));
  TestSink sink(session.proxy.io());
  sink.leaves_at = 3;
  session.proxy.Serve(request, sink);
  EXPECT_FALSE(sink.is_complete);
  EXPECT_EQ(session.num_turns(), 0u);
  EXPECT_TRUE(session.sessions.TryLock({.tenant = session.tenant, .key = "k", .turn = "x"}).lock);
}

TEST(SessionStepTest, WhatIsRefusedOrCutIsNotStored) {
  ModelProvider provider("up");
  SessionProxy session({}, {.upstreams = {provider.Config({"gpt-*"})}});
  EXPECT_EQ(session.Say(kChat.Body("gpt-1", "refuse-me"))->status, 400);
  EXPECT_EQ(session.Say(kChat.Body("gpt-1", "fail-up"))->status, 503);
  EXPECT_EQ(session.Say(kChat.Body("other", "x"))->status, 404);
  EXPECT_EQ(session.num_turns(), 0u);
  EXPECT_EQ(session.Say(kChat.Body("gpt-1", "two"))->status, 200);
  EXPECT_THAT(provider.requests().back(), Not(HasSubstr("refuse-me")));
}

TEST(SessionStepTest, ASecondWriterIsToldWhatItWouldMiss) {
  SessionProxy session({.first_delay = milliseconds(200)});
  const test::TestRequest first = session.Request(kChat.Body("local", "one"));
  const test::TestRequest second =
      session.Request(kMessages.Body("local", "two"), {}, kMessages.path);
  TestSink one(session.proxy.io());
  TestSink two(session.proxy.io());
  bool is_one_done = false;
  bool is_two_done = false;
  session.proxy.Begin(first, one, is_one_done);
  session.proxy.Begin(second, two, is_two_done);
  session.proxy.RunUntil(is_two_done);
  EXPECT_FALSE(is_one_done);
  EXPECT_EQ(two.status, 409);
  EXPECT_THAT(two.body, HasSubstr(R"("type":"error")"));
  EXPECT_THAT(two.body, HasSubstr("turn_" + first.id));
  session.proxy.RunUntil(is_one_done);
  EXPECT_EQ(one.status, 200);
  EXPECT_EQ(session.num_turns(), 1u);
}

TEST(SessionStepTest, ASecondWriterMayWait) {
  SessionProxy session({.first_delay = milliseconds(100)});
  const test::TestRequest first = session.Request(kChat.Body("local", "one"));
  const test::TestRequest second =
      session.Request(kChat.Body("local", "two"), {{"x-kvgate-session-wait", "30"}});
  TestSink one(session.proxy.io());
  TestSink two(session.proxy.io());
  bool is_one_done = false;
  bool is_two_done = false;
  session.proxy.Begin(first, one, is_one_done);
  session.proxy.Begin(second, two, is_two_done);
  session.proxy.RunUntil(is_one_done);
  session.proxy.RunUntil(is_two_done);
  EXPECT_EQ(two.status, 200) << two.body;
  EXPECT_EQ(session.Prompt(), "user: one\nassistant: Hello world!\nuser: two\nassistant:");
  EXPECT_EQ(session.num_turns(), 2u);
}

TEST(SessionStepTest, ARoutesSecondTargetAnswersInTheSession) {
  ModelProvider one("one");
  ModelProvider two("two");
  SessionProxy session(
      {}, {.upstreams = {one.Config({"a-*"}), two.Config({"b-*"})},
           .routes = {{.models = {"gpt-*"}, .targets = {"one/a-1"}, .fallback = {"two/b-1"}}}});
  EXPECT_EQ(session.Say(kChat.Body("gpt-1", "first, fail-one"))->status, 200);
  const auto second = session.Say(kChat.Body("gpt-1", "second", true));
  EXPECT_EQ(second->status, 200);
  EXPECT_EQ(session.num_turns(), 2u);
  ASSERT_THAT(two.requests(), SizeIs(2));
  EXPECT_THAT(two.requests()[1], HasSubstr("first, fail-one"));
  EXPECT_THAT(two.requests()[1], HasSubstr("Hello"));
}

TEST(SessionStepTest, WhoLeavesWhileItWaitsIsNotAsked) {
  SessionProxy session({.first_delay = milliseconds(200)});
  const test::TestRequest first = session.Request(kChat.Body("local", "one"));
  const test::TestRequest second =
      session.Request(kChat.Body("local", "two"), {{"x-kvgate-session-wait", "30"}});
  TestSink one(session.proxy.io());
  TestSink two(session.proxy.io());
  bool is_one_done = false;
  bool is_two_done = false;
  session.proxy.Begin(first, one, is_one_done);
  session.proxy.Begin(second, two, is_two_done);
  boost::asio::post(session.proxy.io(), [&two] { two.Leave(); });
  session.proxy.RunUntil(is_two_done);
  EXPECT_FALSE(is_one_done);
  EXPECT_EQ(two.status, 0);
  session.proxy.RunUntil(is_one_done);
  EXPECT_EQ(one.status, 200);
  EXPECT_THAT(session.proxy.gateway.engine.requests(), SizeIs(1));
}

TEST(SessionStepTest, ResultsOfToolsAreNewTurns) {
  ModelProvider provider("up");
  SessionProxy session({}, {.upstreams = {provider.Config({"gpt-*"})}});
  session.Say(kChat.Body("gpt-1", "one"));
  const std::string result = R"({"role":"tool","tool_call_id":"c","content":"42"})";
  const auto said = session.Say(R"({"model":"gpt-1","messages":[)" + result + "]}");
  EXPECT_EQ(said->status, 200) << said->body;
  const std::string sent = provider.requests().back();
  EXPECT_LT(sent.find("Hello"), sent.find(result));
  EXPECT_THAT(sent, HasSubstr(R"("content":"one")"));
}

TEST(SessionStepTest, AWindowKeepsPromptsBelowItsLimit) {
  SessionProxy session({}, {}, {.high = 300, .low = 150, .hard = 400});
  size_t num_done = 0;
  for (int i = 0; i < 20; ++i) {
    const auto sink = session.Say(kChat.Body("local", "turn number " + std::to_string(i)));
    ASSERT_EQ(sink->status, 200) << sink->body;
    EXPECT_LE(session.Prompt().size(), 300u);
    if (sink->compaction.starts_with("done;before=")) ++num_done;
  }
  EXPECT_GE(num_done, 1u);
  EXPECT_LE(num_done, 5u);
  EXPECT_EQ(session.num_turns(), 20u);
  const auto too_long = session.Say(kChat.Body("local", std::string(500, 'x')));
  EXPECT_EQ(too_long->status, 400);
  EXPECT_THAT(too_long->body, HasSubstr("context_length_exceeded"));
}

TEST(SessionStepTest, WithoutAStoreSessionsAreRefusedInTheDialect) {
  SessionProxy session({}, {}, {}, /*keeps=*/false);
  const auto refused = session.Say(kMessages.Body("local", "one"), {}, kMessages.path);
  EXPECT_EQ(refused->status, 400);
  EXPECT_THAT(refused->body, HasSubstr(R"({"type":"error")"));
  EXPECT_THAT(refused->body, HasSubstr("store.turns"));
  const auto recognised =
      session.Say(kChat.Body("local", "one"), {{"x-kvgate-session-mode", "recognise"}});
  EXPECT_EQ(recognised->status, 200);
  EXPECT_EQ(recognised->compaction, "");
}

TEST(SessionStepTest, ARecognisedSessionKeepsNothing) {
  SessionProxy session;
  for (const char* text : {"one", "two"}) {
    session.Say(kChat.Body("local", text), {{"x-kvgate-session-mode", "recognise"}});
  }
  EXPECT_EQ(session.Prompt(), "user: two\nassistant:");
  EXPECT_EQ(session.num_turns(), 0u);
}

TEST(SessionStepTest, AWrongHeaderIsNamed) {
  SessionProxy session;
  const auto mode = session.Say(kChat.Body("local", "x"), {{"x-kvgate-session-mode", "sometimes"}});
  EXPECT_EQ(mode->status, 400);
  EXPECT_THAT(mode->body, HasSubstr("x-kvgate-session-mode"));
  const auto wait = session.Say(kChat.Body("local", "x"), {{"x-kvgate-session-wait", "61"}});
  EXPECT_EQ(wait->status, 400);
  EXPECT_THAT(wait->body, HasSubstr("from 0 to 60"));
  const auto path = session.Say(R"({"model":"local","prompt":"x"})", {}, "/v1/completions");
  EXPECT_EQ(path->status, 400);
  EXPECT_THAT(path->body, HasSubstr("no messages"));
}

TEST(SessionStepTest, TokensAreCountedOfTheWholeSession) {
  SessionProxy session;
  session.Say(kMessages.Body("local", "one"), {}, kMessages.path);
  const auto counted = session.Say(kMessages.Body("local", "two"), {}, "/v1/messages/count_tokens");
  EXPECT_EQ(counted->status, 200) << counted->body;
  const std::string all = "user: one\nassistant: Hello world!\nuser: two\nassistant:";
  EXPECT_THAT(counted->body, HasSubstr(fmt::format(R"("input_tokens":{})", all.size())));
  EXPECT_EQ(session.num_turns(), 1u);
}

}  // namespace
}  // namespace kvgate::proxy::handler
