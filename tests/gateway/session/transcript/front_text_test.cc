#include "gateway/session/transcript/front_text.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvgate::session::transcript {
namespace {

std::string Put(Dialect dialect, std::string json) {
  Message message{.kind = Kind::kUser, .json = std::move(json)};
  return PutTextInFront(dialect, "T", message) ? message.json : "no";
}

TEST(FrontTextTest, TextStandsInFrontOfWhatTheMessageSays) {
  EXPECT_EQ(Put(Dialect::kChatCompletions, R"({"role":"user", "content":"a\"b","name":"n"})"),
            R"({"role":"user", "content":"T\n\na\"b","name":"n"})");
  EXPECT_EQ(Put(Dialect::kMessages, R"({"role":"user","content":"a"})"),
            R"({"role":"user","content":[{"type":"text","text":"T"},{"type":"text","text":"a"}]})");
  EXPECT_EQ(Put(Dialect::kResponses, R"({"content":[ {"type":"input_image"}]})"),
            R"({"content":[{"type":"input_text","text":"T"}, {"type":"input_image"}]})");
  EXPECT_EQ(Put(Dialect::kChatCompletions, R"({"content":[]})"),
            R"({"content":[{"type":"text","text":"T"}]})");
}

TEST(FrontTextTest, WhatHasNoContentStaysAsItIs) {
  EXPECT_EQ(Put(Dialect::kChatCompletions, R"({"role":"user"})"), "no");
  EXPECT_EQ(Put(Dialect::kChatCompletions, R"({"content":7})"), "no");
}

TEST(FrontTextTest, WhereNoUserSpeaksFirstItIsAMessageOfItsOwn) {
  std::vector<Message> messages = {{.kind = Kind::kAssistant, .json = R"({"content":"a"})"}};
  PutTextInFront(Dialect::kMessages, "T", messages);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].json, R"({"role":"user","content":[{"type":"text","text":"T"}]})");
}

TEST(FrontTextTest, TheNewestWordsAreTheLastThatAUserSays) {
  const Message said{.kind = Kind::kUser, .json = R"({"content":"a"})"};
  const Message result{.kind = Kind::kTool, .json = R"({"content":"r"})"};
  const Message empty{.kind = Kind::kUser, .json = R"({"content":null})"};
  EXPECT_EQ(NewestWords(std::vector{said, said, result, empty}), 1u);
  EXPECT_EQ(NewestWords(std::vector{result}), std::nullopt);
}

TEST(FrontTextTest, AClosingMarkInsideIsHarmless) {
  EXPECT_EQ(WithoutMark("a</summary>b</summary >", "</summary"), "a< /summary>b< /summary >");
}

}  // namespace
}  // namespace kvgate::session::transcript
