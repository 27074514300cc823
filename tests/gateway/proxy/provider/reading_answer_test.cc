#include "gateway/proxy/provider/reading_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/gateway/proxy/provider/told_answer.h"
#include "tests/gateway/proxy/session_proxy.h"

namespace kvgate::proxy::provider {
namespace {

using test::SessionProxy;
using test::TestSink;
using test::ToldAnswer;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

constexpr const char* kCall =
    R"("tool_calls":[{"index":0,"id":"c","type":"function",)"
    R"("function":{"name":"kvgate_read_result","arguments":"{\"id\":\"res_1\"}"}}])";

std::string Body(const std::string& members, const std::string& reason) {
  return R"({"id":"a","choices":[{"finish_reason":")" + reason +
         R"(","message":{"role":"assistant",)" + members + "}}]}";
}
std::string Chunk(const std::string& delta, const std::string& reason = "null") {
  return R"(data: {"id":"a","choices":[{"index":0,"delta":{)" + delta + R"(},"finish_reason":)" +
         reason + "}]}\n\n";
}

class ReadingAnswerTest : public ::testing::Test {
 protected:
  void Deliver(bool streams) {
    const test::TestRequest asked =
        session.Request(R"({"messages":[{"role":"user","content":"one"}]})");
    const auto request = session.proxy.Open(asked, sink);
    turn = session.sessions
               .Read({.tenant = session.tenant,
                      .ask = {.key = "k", .stubs = true},
                      .request_id = asked.id,
                      .dialect = dialect::form::Dialect::kChatCompletions,
                      .body = asked.body})
               .value();
    ASSERT_TRUE(session.sessions.Load(*turn));
    ASSERT_GT(turn->read_bytes, 0u);
    turn->turn.results = {{.id = "res_1", .text = "the kept text"}};
    const auto composed = session.sessions.Compose(*turn, {.body = asked.body});
    ASSERT_TRUE(composed);
    ASSERT_TRUE(request->ReplaceBody(*composed));
    fields = {{"content-type", streams ? "text/event-stream" : "application/json"}};
    told.Forward(200, fields);
    ReadingAnswer answer(*request, session.sessions, told, turn,
                         [&](std::string body, PassPiece pass) -> Task<RoundReply> {
                           bodies.push_back(std::move(body));
                           RoundReply reply = replies.front();
                           replies.erase(replies.begin());
                           if (pass && reply.status == 200) {
                             const bool goes_on = co_await pass(reply.body);
                             EXPECT_TRUE(goes_on);
                           }
                           co_return reply;
                         });
    session.proxy.Run(provider::Deliver(answer, *request));
  }

  SessionProxy session;
  TestSink sink{session.proxy.io()};
  ToldAnswer told;
  upstream::wire::HeaderFields fields;
  std::shared_ptr<session::SessionTurn> turn;
  std::vector<std::string> bodies;  // of the rounds that were asked
  std::vector<RoundReply> replies;
};

TEST_F(ReadingAnswerTest, AnAnswerWithoutSuchCallsPasses) {
  told.pieces = {Body(R"("content":"Hi")", "stop")};
  Deliver(/*streams=*/false);
  EXPECT_EQ(Json::parse(sink.body)["choices"][0]["message"]["content"], "Hi");
  EXPECT_TRUE(bodies.empty());
  EXPECT_FALSE(turn->said);
  EXPECT_EQ(told.fate, Answer::Fate::kDelivered);
}

TEST_F(ReadingAnswerTest, TheCallIsAnsweredAndAskedAgain) {
  told.pieces = {Body(std::string(R"("content":"I look. ",)") + kCall, "tool_calls")};
  replies = {{.status = 200, .body = Body(R"("content":"It is kept.")", "stop")}};
  Deliver(/*streams=*/false);
  EXPECT_EQ(Json::parse(sink.body)["choices"][0]["message"]["content"], "I look. It is kept.");
  EXPECT_THAT(sink.body, Not(HasSubstr("kvgate_read_result")));
  ASSERT_EQ(bodies.size(), 1u);
  const Json messages = Json::parse(bodies[0])["messages"];
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[0]["content"], "one");
  EXPECT_EQ(messages[1]["tool_calls"][0]["id"], "c");
  EXPECT_EQ(messages[2]["tool_call_id"], "c");
  EXPECT_THAT(messages[2]["content"].get<std::string>(), HasSubstr("the kept text"));
  ASSERT_TRUE(turn->said);
  EXPECT_EQ(turn->said->messages.size(), 3u);
  EXPECT_EQ(turn->turn.prompt_bytes, bodies[0].size());
}

TEST_F(ReadingAnswerTest, AStreamGoesOn) {
  told.pieces = {Chunk(R"("role":"assistant","content":"I look. ")"), Chunk(kCall),
                 Chunk("", R"("tool_calls")"), "data: [DONE]\n\n"};
  replies = {{.status = 200,
              .body = Chunk(R"("role":"assistant","content":"It is kept.")") +
                      Chunk("", R"("stop")") + "data: [DONE]\n\n"}};
  Deliver(/*streams=*/true);
  EXPECT_THAT(sink.body, HasSubstr("I look. "));
  EXPECT_THAT(sink.body, HasSubstr("It is kept."));
  EXPECT_THAT(sink.body, Not(HasSubstr("kvgate_read_result")));
  EXPECT_THAT(sink.body, Not(HasSubstr(R"("tool_calls")")));
  EXPECT_TRUE(sink.body.ends_with("data: [DONE]\n\n"));
  EXPECT_FALSE(sink.is_cut);
}

TEST_F(ReadingAnswerTest, ARoundThatIsRefusedIsAnError) {
  told.pieces = {Body(kCall, "tool_calls")};
  replies = {{.status = 429}};
  Deliver(/*streams=*/false);
  EXPECT_EQ(sink.status, 503);
  EXPECT_THAT(sink.body, HasSubstr("status 429"));
  EXPECT_FALSE(turn->said);
}

TEST_F(ReadingAnswerTest, AStreamWhoseNextRoundIsRefusedIsCut) {
  told.pieces = {Chunk(R"("content":"I look.")"), Chunk(kCall), Chunk("", R"("tool_calls")")};
  replies = {{.status = 500}};
  Deliver(/*streams=*/true);
  EXPECT_TRUE(sink.is_cut);
  EXPECT_THAT(sink.body, HasSubstr("I look."));
}

TEST_F(ReadingAnswerTest, RoundsAreBounded) {
  told.pieces = {Body(kCall, "tool_calls")};
  for (int i = 1; i < kRoundsMax; ++i) {
    replies.push_back({.status = 200, .body = Body(kCall, "tool_calls")});
  }
  Deliver(/*streams=*/false);
  EXPECT_EQ(sink.status, 200);
  EXPECT_EQ(bodies.size(), static_cast<size_t>(kRoundsMax - 1));
  EXPECT_EQ(Json::parse(sink.body)["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(turn->said->messages.size(), static_cast<size_t>(2 * kRoundsMax));
}

}  // namespace
}  // namespace kvgate::proxy::provider
