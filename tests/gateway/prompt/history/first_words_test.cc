#include "gateway/prompt/history/first_words.h"

#include <gtest/gtest.h>

#include <string>

#include "gateway/prompt/parse/segment_memo.h"

namespace kvgate::prompt::history {
namespace {

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
