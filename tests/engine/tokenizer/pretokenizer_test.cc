#include "engine/tokenizer/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/engine/tokenizer/fixtures.h"

namespace kvgate::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Words(std::string_view pre, std::string_view text) {
  auto pretokenizer = Pretokenizer::Create(pre);
  EXPECT_TRUE(pretokenizer) << pretokenizer.error().ToString();
  std::vector<size_t> ends;
  (*pretokenizer)->Split(text, ends);
  std::vector<std::string> words;
  size_t begin = 0;
  for (const size_t end : ends) {
    words.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

TEST(PretokenizerTest, Gpt2KeepsOneSpaceWithTheWordAndOnlyLowerCaseContractionsApart) {
  EXPECT_THAT(Words("gpt-2", "I've  2000 y'ALL!?\n\n x"),
              ElementsAre("I", "'ve", " ", " 2000", " y", "'", "ALL", "!?", "\n\n", " x"));
}

TEST(PretokenizerTest, Llama3GroupsThreeDigitsAndTakesLineEndsWithPunctuation) {
  EXPECT_THAT(Words("llama-bpe", "I'VE 12345 {\n\n  x"),
              ElementsAre("I", "'VE", " ", "123", "45", " {\n\n", " ", " x"));
  EXPECT_THAT(Words("llama-bpe", "a \n b\t_c"), ElementsAre("a", " \n", " b", "\t", "_c"));
}

TEST(PretokenizerTest, Qwen2TakesDigitsOneByOne) {
  EXPECT_THAT(Words("qwen2", "x 123(y"), ElementsAre("x", " ", "1", "2", "3", "(y"));
}

TEST(PretokenizerTest, StarcoderAndDeepseekCoderCutInSeveralPasses) {
  EXPECT_THAT(Words("starcoder", "a 12 b"), ElementsAre("a", " ", "1", "2", " b"));
  EXPECT_THAT(Words("deepseek-coder", "if x:\n中文y 12"),
              ElementsAre("if", " x", ":", "\n", "中文", "y", " ", "1", "2"));
}

TEST(PretokenizerTest, WhiteSpaceIsUnicodesSoTheMongolianVowelSeparatorIsNone) {
  EXPECT_THAT(Words("gpt-2", "a\u180e\u180e!"), ElementsAre("a", "\u180e\u180e!"));
  EXPECT_THAT(Words("gpt-2", "a\u0085\u3000!"), ElementsAre("a", "\u0085", "\u3000", "!"));
}

TEST(PretokenizerTest, BytesThatAreNoUtf8AreWordsOfTheirOwn) {
  EXPECT_THAT(Words("gpt-2", "ab\xFF\xC3 cd\xE6\x97"),
              ElementsAre("ab", "\xFF\xC3", " cd", "\xE6\x97"));
}

TEST(PretokenizerTest, WordsCoverEveryTextWithoutGapOrEmptyWord) {
  std::mt19937_64 random(3);
  for (const char* pre : {"default", "gpt-2", "llama-bpe", "qwen2", "deepseek-coder", "refact"}) {
    for (int round = 0; round < 300; ++round) {
      const std::string text = RandomText(random, random() % 40, true);
      std::string joined;
      for (const std::string& word : Words(pre, text)) {
        EXPECT_FALSE(word.empty());
        joined += word;
      }
      EXPECT_EQ(joined, text) << pre;
    }
  }
}

TEST(PretokenizerTest, AMegabyteOfAnyOneKindOfCharacterIsCutAtOnce) {
  for (const char* pre : {"default", "gpt-2", "llama-bpe", "qwen2", "deepseek-coder", "refact"}) {
    for (const char* unit : {" ", "\n", "a", "7", "!", "日", " \n", "'", "\xFF", "\t "}) {
      std::string text;
      while (text.size() < (1 << 20)) text += unit;
      std::string joined;
      for (const std::string& word : Words(pre, text)) joined += word;
      EXPECT_EQ(joined.size(), text.size()) << pre << " '" << unit << "'";
    }
  }
}

TEST(PretokenizerTest, AnUnknownNameIsNamedAndOursAreListed) {
  const auto result = Pretokenizer::Create("tekken");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(result.error().detail, HasSubstr("'tekken'"));
  for (const char* name : {"default", "gpt-2", "llama-bpe", "qwen2", "starcoder", "smollm"}) {
    EXPECT_THAT(result.error().detail, HasSubstr(name));
  }
}

}  // namespace
}  // namespace kvgate::tokenizer
