#include "gateway/session/log/kept_turn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/session/log/history.h"
#include "tests/gateway/session/session_turns.h"

namespace kvgate::session::log {
namespace {

using store::meta::Turn;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string Item(const std::string& id, const std::string& role) {
  return R"({"type":"message","id":")" + id + R"(","role":")" + role + R"(","content":"x"})";
}
std::string ListOf(const std::vector<std::string>& items) {
  std::string list = "[";
  for (const std::string& item : items) list += (list.size() > 1 ? "," : "") + item;
  return list + "]";
}
std::vector<std::string> IdsOf(const std::vector<Message>& messages) {
  std::vector<std::string> ids;
  for (const Message& message : messages) {
    const size_t begin = message.json.find("\"id\":\"") + 6;
    ids.push_back(message.json.substr(begin, message.json.find('"', begin) - begin));
  }
  return ids;
}

Turn Entry(const std::string& id, std::vector<store::meta::TurnItem> items) {
  Turn turn;
  turn.id = id;
  turn.parent = "before";
  turn.items = std::move(items);
  turn.tokens = {.input = 5, .cached = 0, .output = 1};
  return turn;
}

Turn Response(const std::string& id) {
  return Entry(id, {{std::string(kInputRole), ListOf({Item(id + "i", "user")})},
                    {std::string(kResponseRole),
                     R"({"model":"m","instructions":"Be brief.","tools":[],"output":)" +
                         ListOf({Item(id + "o", "assistant")}) + "}"}});
}

TEST(KeptTurnTest, AResponseIsATurnWithItsFrame) {
  const Turn stored = Response("r");
  ASSERT_TRUE(IsKept(stored));
  const LoggedTurn turn = FromKept(stored).value();
  EXPECT_EQ(turn.id, "r");
  EXPECT_EQ(turn.parent, "before");
  EXPECT_EQ(turn.model, "m");
  EXPECT_EQ(turn.tokens.input, 5);
  EXPECT_THAT(IdsOf(turn.input), ElementsAre("ri"));
  EXPECT_THAT(IdsOf(turn.answer), ElementsAre("ro"));
  EXPECT_EQ(turn.frame->system, R"("Be brief.")");
  EXPECT_EQ(turn.frame->tools, "");
  EXPECT_EQ(turn.depth, 0u);
}

TEST(KeptTurnTest, ANoteSaysWhatTheSessionKnowsOfIt) {
  LoggedTurn known;
  known.depth = 7;
  known.model = "n";
  known.prompt_bytes = 99;
  known.compaction = Compaction{.from_turn = "x", .from_message = 2, .num_messages = 4};
  Turn stored = Entry("c", {{std::string(kItemsRole), ListOf({Item("1", "user")})}});
  stored.items.push_back(ToNote(known));
  const LoggedTurn turn = FromKept(stored).value();
  EXPECT_EQ(turn.depth, 7u);
  EXPECT_EQ(turn.model, "n");
  EXPECT_EQ(turn.prompt_bytes, 99u);
  EXPECT_EQ(turn.compaction, known.compaction);
}

TEST(KeptTurnTest, ItemsEndInAnAnswerIfTheAssistantHasTheLastWord) {
  const auto read = [](const std::vector<std::string>& roles) {
    std::vector<std::string> items;
    for (const std::string& role : roles) items.push_back(Item(std::to_string(items.size()), role));
    return FromKept(Entry("c", {{std::string(kItemsRole), ListOf(items)}})).value();
  };
  EXPECT_THAT(IdsOf(read({"user", "assistant", "assistant"}).answer), ElementsAre("1", "2"));
  EXPECT_THAT(read({"user", "assistant", "user"}).answer, IsEmpty());
  EXPECT_THAT(IdsOf(read({"assistant"}).input), ElementsAre("0"));
}

TEST(KeptTurnTest, MetadataSaysNothing) {
  const LoggedTurn turn = FromKept(Entry("c", {{std::string(kMetadataRole), "{}"}})).value();
  EXPECT_FALSE(turn.is_turn());
  EXPECT_FALSE(turn.compaction);
}

TEST(KeptTurnTest, WhatIsNoListIsALoss) {
  const Turn broken = Entry("c", {{std::string(kItemsRole), "{"}});
  EXPECT_EQ(FromKept(broken).error().code, ErrorCode::kDataLoss);
  EXPECT_FALSE(IsKept(Entry("c", {{"session.turn", "{}"}})));
}

TEST(KeptTurnTest, WhatIsRemovedIsGoneFromWhatIsBefore) {
  std::vector<LoggedTurn> turns;
  for (const std::string id : {"a", "b", "c"}) turns.push_back(FromKept(Response(id)).value());
  // It begins at b's answer, of which the input is removed: that is its first message then.
  turns[2].compaction = Compaction{.from_turn = "b", .from_message = 1, .num_messages = 3};
  turns.push_back(FromKept(Entry("d", {{std::string(kRemovedRole), "bi"}})).value());
  turns.push_back(FromKept(Response("e")).value());
  ApplyRemovals(turns);
  EXPECT_THAT(turns[1].input, IsEmpty());
  EXPECT_THAT(IdsOf(HistoryOf(turns).messages), ElementsAre("bo", "ci", "co", "ei", "eo"));
}

}  // namespace
}  // namespace kvgate::session::log
