#include "gateway/proxy/provider/session_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gateway/proxy/provider/told_answer.h"
#include "tests/gateway/proxy/session_proxy.h"

namespace kvgate::proxy::provider {
namespace {

using test::SessionProxy;
using test::TestSink;
using test::ToldAnswer;
using ::testing::HasSubstr;

class SessionAnswerTest : public ::testing::Test {
 protected:
  // Delivers the answer of a request in the session "k".
  bool Deliver() {
    const test::TestRequest asked =
        session.Request(R"({"messages":[{"role":"user","content":"one"}]})");
    const auto request = session.proxy.Open(asked, sink);
    auto turn = session.sessions.Read({.tenant = session.tenant,
                                       .ask = {.key = "k"},
                                       .request_id = asked.id,
                                       .dialect = dialect::form::Dialect::kChatCompletions,
                                       .body = asked.body});
    EXPECT_TRUE(turn && session.sessions.Compose(**turn, {.body = asked.body}));
    (*turn)->lock =
        session.sessions.TryLock({.tenant = session.tenant, .key = "k", .turn = "x"}).lock;
    EXPECT_TRUE((*turn)->lock);
    request->notes().compaction = "none";
    SessionAnswer answer(*request, session.sessions, told, *turn);
    const bool is_answered = session.proxy.Run(provider::Deliver(answer, *request));
    EXPECT_EQ((*turn)->lock == nullptr, is_answered && !sink.is_cut);
    return is_answered;
  }
  void Forward(int status, upstream::wire::HeaderFields head) {
    fields = std::move(head);
    told.Forward(status, fields);
  }

  SessionProxy session;
  TestSink sink{session.proxy.io()};
  ToldAnswer told;
  upstream::wire::HeaderFields fields;
};

constexpr const char* kBody =
    R"({"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"Hi"}}]})";

TEST_F(SessionAnswerTest, ABodyInPiecesIsStoredAndPassedOn) {
  Forward(200, {{"content-type", "application/json"}});
  told.pieces = {std::string(kBody).substr(0, 20), std::string(kBody).substr(20)};
  EXPECT_TRUE(Deliver());
  EXPECT_EQ(sink.body, kBody);
  EXPECT_EQ(session.num_turns(), 1u);
  EXPECT_EQ(told.fate, Answer::Fate::kDelivered);
}

TEST_F(SessionAnswerTest, AnAnswerThatIsAnErrorPasses) {
  Forward(429, {{"content-type", "application/json"}});
  told.pieces = {R"({"error":{}})"};
  EXPECT_TRUE(Deliver());
  EXPECT_EQ(sink.status, 429);
  EXPECT_EQ(sink.body, R"({"error":{}})");
  EXPECT_EQ(session.num_turns(), 0u);
}

TEST_F(SessionAnswerTest, ABodyThatIsCutIsNoAnswer) {
  Forward(200, {{"content-type", "application/json"}});
  told.pieces = {std::string(kBody).substr(0, 20)};
  told.is_cut = true;
  EXPECT_TRUE(Deliver());
  EXPECT_EQ(sink.status, 502);
  EXPECT_THAT(sink.body, HasSubstr("the upstream left"));
  EXPECT_EQ(session.num_turns(), 0u);
}

TEST_F(SessionAnswerTest, AStreamThatIsCutIsCut) {
  Forward(200, {{"content-type", "text/event-stream"}});
  told.pieces = {"data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n"};
  told.is_cut = true;
  EXPECT_TRUE(Deliver());
  EXPECT_TRUE(sink.is_cut);
  EXPECT_THAT(sink.body, HasSubstr("Hi"));
  EXPECT_EQ(session.num_turns(), 0u);
  EXPECT_EQ(told.fate, Answer::Fate::kCut);
}

TEST_F(SessionAnswerTest, AnEncodedAnswerCannotBeKept) {
  Forward(200, {{"content-type", "application/json"}, {"content-encoding", "gzip"}});
  told.pieces = {"bytes"};
  EXPECT_TRUE(Deliver());
  EXPECT_EQ(sink.status, 502);
  EXPECT_THAT(sink.body, HasSubstr("encodes its answer"));
}

TEST_F(SessionAnswerTest, TheNextProviderMayAnswer) {
  told.begun = {.kind = Begun::Kind::kNext};
  EXPECT_FALSE(Deliver());
  EXPECT_EQ(sink.status, 0);
}

TEST_F(SessionAnswerTest, ARefusalFreesTheSession) {
  told.begun = {.kind = Begun::Kind::kWhole, .response = request::StatusResponse(503, "busy")};
  EXPECT_TRUE(Deliver());
  EXPECT_EQ(sink.status, 503);
  EXPECT_EQ(session.num_turns(), 0u);
}

}  // namespace
}  // namespace kvgate::proxy::provider
