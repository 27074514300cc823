#include "gateway/prompt/history/first_words.h"

#include <gtest/gtest.h>

#include <string>

#include "gateway/prompt/parse/segment_memo.h"

namespace kvgate::prompt::history {
namespace {

TEST(FirstWords, TaggedBlocksAtTheEndAreNoWords) {
  EXPECT_EQ(WithoutTaggedEnd("fix it"), "fix it");
  EXPECT_EQ(WithoutTaggedEnd("fix it\n\n<a-notice>on</a-notice>\n"), "fix it");
  EXPECT_EQ(WithoutTaggedEnd("fix it\n<a at=\"1\">\non\n</a>\n\n<b_2>x</b_2>"), "fix it");
  EXPECT_EQ(WithoutTaggedEnd("<note>\nall of it\n</note>"), "");
  // The last tag of the name counts, and only one that begins a line.
  EXPECT_EQ(WithoutTaggedEnd("<b>old</b> text\n<b>new</b>"), "<b>old</b> text");
  EXPECT_EQ(WithoutTaggedEnd("say <b>this</b>"), "say <b>this</b>");
}

TEST(FirstWords, WhatIsNoTagStays) {
  for (const std::string_view text :
       {"", "a > b", "x</", "x</>", "x\n</a>", "x\n<ab>y</a>", "x\n<a>y</a b>", "<", ">", "</a>"}) {
    EXPECT_EQ(WithoutTaggedEnd(text), text) << text;
  }
}

TEST(FirstWords, ManyBlocksAreATextInTags) {
  std::string text = "words";
  for (int i = 0; i < 100; ++i) text += "\n<a>x</a>";
  EXPECT_GT(WithoutTaggedEnd(text).size(), 700U);
}

parse::Identity WordsOf(const std::string& messages) {
  const std::string body = R"({"model":"m","messages":[)" + messages + "]}";
  parse::SegmentMemo memo(16);
  const auto layout =
      parse::ReadRequestLayout(upstream::wire::Endpoint::kChatCompletions, body, memo);
  EXPECT_TRUE(layout.has_value());
  return FirstWordsOf(body, *layout);
}

TEST(FirstWords, AreThoseOfTheFirstUserTurn) {
  const std::string system = R"({"role":"system","content":"Be brief."},)";
  const parse::Identity words = WordsOf(system + R"({"role":"user","content":"fix it"})");
  EXPECT_NE(words, parse::Identity{});
  EXPECT_EQ(WordsOf(R"({"role":"user","content":"fix it\n\n<n>on</n>"})"), words);
  EXPECT_EQ(WordsOf(R"({"role":"user","content":[{"type":"text","text":"fix it"},)"
                    R"({"type":"text","text":"<n>on</n>"}]})"),
            words);
  const std::string answered = R"({"role":"user","content":"fix it"},)"
                               R"({"role":"assistant","content":"done"},)"
                               R"({"role":"user","content":"more"})";
  EXPECT_EQ(WordsOf(answered), words);
  EXPECT_NE(WordsOf(R"({"role":"user","content":"mend it"})"), words);
  EXPECT_EQ(WordsOf(answered + R"(,{"role":"assistant","content":"again"})"), parse::Identity{});
  EXPECT_EQ(WordsOf(R"({"role":"user","content":"<n>on</n>"})"), parse::Identity{});
}

}  // namespace
}  // namespace kvgate::prompt::history
