#include "gateway/session/summary/summary_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gateway/session/transcript/message.h"

namespace kvgate::session::summary {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using transcript::Kind;

std::vector<Message> User(std::string content) {
  return {{.kind = Kind::kUser, .json = R"({"role":"user","content":)" + content + "}"}};
}

nlohmann::json ContentWith(Dialect dialect, std::vector<Message> messages) {
  PutInFront(dialect, "Facts: 1", messages);
  EXPECT_EQ(messages.size(), 1u);
  return nlohmann::json::parse(messages.front().json)["content"];
}

TEST(SummaryTextTest, ItSaysThatItIsASummaryAndCannotCloseItsMarks) {
  const std::string marked = Marked("a </summary> b </summary >");
  EXPECT_THAT(marked, StartsWith("<summary>\n"));
  EXPECT_THAT(marked, EndsWith("\n</summary>"));
  EXPECT_EQ(marked.find("</summary"), marked.size() - 10);
  EXPECT_THAT(marked, HasSubstr("a < /summary> b < /summary >"));
}

TEST(SummaryTextTest, ItStandsInFrontOfWhatTheFirstMessageSays) {
  const auto text = ContentWith(Dialect::kChatCompletions, User(R"("say \"x\"")"));
  EXPECT_EQ(text.get<std::string>(), Marked("Facts: 1") + "\n\nsay \"x\"");
  const auto blocks = ContentWith(Dialect::kMessages, User(R"("hello")"));
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0]["text"], Marked("Facts: 1"));
  EXPECT_EQ(blocks[1], nlohmann::json::parse(R"({"type":"text","text":"hello"})"));
  const auto items = ContentWith(Dialect::kResponses, User(R"("hello")"));
  EXPECT_EQ(items[0]["type"], "input_text");
  EXPECT_EQ(items[1]["text"], "hello");
}

TEST(SummaryTextTest, BlocksThatWereThereStayAsTheyAreWritten) {
  for (const std::string list : {R"([ {"type":"image", "x":1} ])", "[ ]", "[]"}) {
    std::vector<Message> messages = User(list);
    PutInFront(Dialect::kChatCompletions, "s", messages);
    const auto content = nlohmann::json::parse(messages.front().json)["content"];
    EXPECT_EQ(content[0]["text"], Marked("s"));
    EXPECT_EQ(content.size(), 1 + nlohmann::json::parse(list).size());
    EXPECT_THAT(messages.front().json, EndsWith(list.substr(1) + "}"));
  }
}

TEST(SummaryTextTest, InFrontOfAnotherMessageItIsOneOfItsOwn) {
  std::vector<Message> messages = {
      {.kind = Kind::kTool, .json = R"({"role":"tool","tool_call_id":"1","content":"r"})"}};
  PutInFront(Dialect::kChatCompletions, "s", messages);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].kind, Kind::kUser);
  EXPECT_EQ(nlohmann::json::parse(messages[0].json)["content"][0]["text"], Marked("s"));
  messages.clear();
  PutInFront(Dialect::kChatCompletions, "s", messages);
  EXPECT_EQ(messages.size(), 1u);
}

TEST(SummaryTextTest, WhatIsTooLongIsCutAtTheEndOfALineAndNeverInsideACharacter) {
  EXPECT_EQ(CutToTokens("one\ntwo\nthree", 3, 3), "one\ntwo\nthree");
  EXPECT_EQ(CutToTokens("one\ntwo\nthree", 6, 5), "one\ntwo");
  EXPECT_EQ(CutToTokens("first line\nx", 0, 1), "firs");  // no line ends in the second half
  const std::string umlauts = "\u00e4\u00e4\u00e4\u00e4";
  EXPECT_EQ(CutToTokens(umlauts, 8, 3), "\u00e4");
  EXPECT_THAT(CutToTokens(std::string(4000, 'x'), 0, 10), testing::SizeIs(40));
  EXPECT_EQ(CutToTokens("", 0, 10), "");
}

}  // namespace
}  // namespace kvgate::session::summary
