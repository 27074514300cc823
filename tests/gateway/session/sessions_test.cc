#include "gateway/session/sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/gateway/service/kept_responses.h"
#include "tests/gateway/session/session_turns.h"
#include "tests/store/memory_meta_store.h"

namespace kvgate::session {
namespace {

using test::Said;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SessionsTest : public ::testing::Test {
 protected:
  // All four steps; the answer is "A" and the request's number.
  Result<std::string> Say(const std::string& body, Dialect dialect = Dialect::kChatCompletions,
                          SessionAsk ask = {.key = "k"}) {
    KVGATE_TRY(auto turn, sessions.Read({.tenant = "t",
                                         .ask = std::move(ask),
                                         .request_id = std::to_string(++last_id),
                                         .dialect = dialect,
                                         .body = body}));
    KVGATE_TRY_VOID(sessions.Load(*turn));
    KVGATE_TRY(const std::string composed, sessions.Compose(*turn, {.body = body}));
    compaction = turn->compaction;
    KVGATE_TRY_VOID(sessions.Commit(
        *turn,
        {.messages = {Said("assistant", fmt::format("A{}", last_id))}, .tokens = {.input = 10}}));
    std::string said;
    const auto sent = nlohmann::json::parse(composed);
    for (const auto& message : sent["messages"]) {
      said += message["content"].get<std::string>() + " ";
    }
    return said;
  }
  static std::string User(std::string_view text) {
    return R"({"model":"m","messages":[{"role":"user","content":")" + std::string(text) + "\"}]}";
  }

  store::MemoryMetaStore meta;
  std::unique_ptr<store::meta::TurnStore> turns = test::OpenTurns(meta);
  Sessions sessions{{.turns = turns.get()}};
  int last_id = 0;
  std::string compaction;
};

TEST_F(SessionsTest, EachTurnGoesOnFromTheOneBefore) {
  EXPECT_EQ(Say(R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"}]})"),
            "s a ");
  EXPECT_EQ(Say(User("b")), "s a A1 b ");
  EXPECT_EQ(Say(User("c")), "s a A1 b A2 c ");
  EXPECT_EQ(compaction, "none");
  EXPECT_EQ(sessions.counts().num_turns, 3u);
}

TEST_F(SessionsTest, AnotherDialectUnderTheSameKeyIsRefused) {
  ASSERT_TRUE(Say(User("a")));
  const auto refused = Say(User("b"), Dialect::kMessages);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().detail, HasSubstr("began in the dialect 'chat'"));
}

TEST_F(SessionsTest, ATurnIsStoredWholeOrNotAtAll) {
  ASSERT_TRUE(Say(User("a")));
  meta.refuses = true;
  EXPECT_FALSE(Say(User("lost")));
  meta.refuses = false;
  EXPECT_EQ(Say(User("b")), "a A1 b ");
  EXPECT_EQ(sessions.counts().num_turns, 2u);
}

TEST_F(SessionsTest, WhatIsTooLargeToBeStoredIsRefusedBeforeItIsAnswered) {
  const auto refused = Say(User(std::string(turns->turn_bytes_max(), 'x')));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kTooLarge);
  EXPECT_THAT(refused.error().detail, HasSubstr("too large to be kept"));
  EXPECT_EQ(Say(User("b")), "b ");
}

TEST_F(SessionsTest, ABranchBecomesTheHead) {
  ASSERT_TRUE(Say(User("a")));
  ASSERT_TRUE(Say(User("b")));
  EXPECT_EQ(Say(R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"A1"},
                                {"role":"user","content":"other"}]})"),
            "a A1 other ");
  EXPECT_EQ(Say(User("c")), "a A1 other A3 c ");
}

TEST_F(SessionsTest, WhatIsLeftOutStaysInTheLog) {
  Sessions bounded({.turns = turns.get(), .window = {.high = 60, .low = 40, .hard = 80}});
  std::string composed;
  for (int i = 1; i <= 8; ++i) {
    const std::string body = User(std::string(40, static_cast<char>('a' + i)));
    auto turn = bounded.Read({.tenant = "t",
                              .ask = {.key = "k"},
                              .request_id = std::to_string(i),
                              .dialect = Dialect::kChatCompletions,
                              .body = body});
    ASSERT_TRUE(turn && bounded.Load(**turn));
    const auto made = bounded.Compose(**turn, {.body = body});
    ASSERT_TRUE(made) << made.error().ToString();
    composed = *made;
    ASSERT_TRUE(bounded.Commit(**turn, {.messages = {Said("assistant", "A")}}));
  }
  EXPECT_GT(bounded.counts().num_compactions, 0u);
  EXPECT_LT(composed.size(), 300u);
  const auto root = bounded.session_log().Find({.tenant = "t", .key = "k"});
  ASSERT_TRUE(root);
  EXPECT_EQ(bounded.session_log().All({.tenant = "t", .key = "k"}, *root)->size(), 8u);
}

TEST_F(SessionsTest, WithoutAStoreTheyAreRefused) {
  Sessions none({.turns = nullptr});
  const auto turn =
      none.Read({.tenant = "t", .ask = {.key = "k"}, .request_id = "1", .body = "{}"});
  ASSERT_FALSE(turn);
  EXPECT_EQ(turn.error().field, kKeyHeader);
  EXPECT_THAT(turn.error().detail, HasSubstr("store.turns"));
}

TEST_F(SessionsTest, ConflictsAreCounted) {
  const Error error = sessions.Refuse("k", "turn_9");
  EXPECT_EQ(error.source, dialect::form::kSessionSource);
  EXPECT_THAT(error.detail, HasSubstr("turn_9"));
  std::string text;
  metrics::TextWriter writer(text);
  sessions.Collect(writer);
  EXPECT_THAT(text, HasSubstr("kvgate_session_conflicts_total 1"));
}

}  // namespace
}  // namespace kvgate::session
