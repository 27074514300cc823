#include "gateway/prompt/history/first_turn.h"

#include <gtest/gtest.h>

#include <string>

#include "gateway/prompt/parse/segment_memo.h"

namespace kvgate::prompt::history {
namespace {

FirstTurn TurnOf(const std::string& messages) {
  const std::string body = R"({"model":"m","messages":[)" + messages + "]}";
  parse::SegmentMemo memo(16);
  const auto layout =
      parse::ReadRequestLayout(dialect::form::Endpoint::kChatCompletions, body, memo);
  EXPECT_TRUE(layout.has_value());
  return ReadFirstTurn(body, *layout);
}
parse::Identity WordsOf(const std::string& messages) { return TurnOf(messages).words; }

TEST(FirstTurn, ItsWordsAreThoseWithoutNotices) {
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
  EXPECT_EQ(WordsOf(R"({"role":"user","content":"<n>on</n>"})"), parse::Identity{});
}

TEST(FirstTurn, ItsEndsAreItsFirstAndLastParagraphWithoutValues) {
  const auto ends_of = [](const std::string& text) {
    return TurnOf(R"({"role":"user","content":")" + text + "\"}").ends;
  };
  const parse::Identity ends = ends_of("# Notes\\n\\nfour files\\n\\nfix it by 10:31");
  EXPECT_EQ(ends_of("# Notes\\n\\nfive folders\\n\\nfix it by 11:02"), ends);
  EXPECT_EQ(ends_of("# Notes\\n\\nfour files\\n\\nfix it by 10:31\\n\\n<n>on</n>"), ends);
  EXPECT_NE(ends_of("# Notes\\n\\nfour files\\n\\nmend it by 10:31"), ends);
  EXPECT_NE(ends_of("# Rules\\n\\nfour files\\n\\nfix it by 10:31"), ends);
}

TEST(FirstTurn, ItsLinesAreThoseOfTheUserInFrontOfTheFirstAnswer) {
  const std::string first = R"({"role":"user","content":"fix it\nnow\nfix it"},)";
  const FirstTurn turn = TurnOf(first + R"({"role":"user","content":"or later"})");
  EXPECT_EQ(turn.users.num_lines, 3U) << "one is said twice";
  EXPECT_EQ(turn.users.masks.size(), 3U);
  const FirstTurn answered = TurnOf(first + R"({"role":"user","content":"or later"},)"
                                            R"({"role":"assistant","content":"done"},)"
                                            R"({"role":"user","content":"more"})");
  EXPECT_EQ(answered, turn);
}

}  // namespace
}  // namespace kvgate::prompt::history
