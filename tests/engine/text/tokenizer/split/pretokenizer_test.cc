#include "engine/text/tokenizer/split/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "tests/engine/text/tokenizer/fixtures.h"

namespace kvgate::tokenizer::split {
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

TEST(PretokenizerTest, CasedFamiliesCutBeforeCapitals) {
  EXPECT_THAT(Words("tekken", "HelloWorld IPv6's 12"),
              ElementsAre("Hello", "World", " IPv", "6", "'s", " ", "1", "2"));
  EXPECT_THAT(Words("gpt-4o", "HelloWorld don't 1234 a//\n"),
              ElementsAre("Hello", "World", " don't", " ", "123", "4", " a", "//\n"));
  // A combining mark belongs to its letter.
  EXPECT_THAT(Words("gpt-4o", "ка\u0301фе"), ElementsAre("ка\u0301фе"));
  // llama.cpp's split for Kimi takes a word in any case as a whole, and splits Han off.
  EXPECT_THAT(Words("kimi-k2", "HelloWorld's 中文ab"),
              ElementsAre("HelloWorld's", " ", "中文", "ab"));
}

TEST(PretokenizerTest, DigitsAreGroupedFromTheRightWhereTheModelsDo) {
  EXPECT_THAT(Words("afmoe", "12345 123456a1"),
              ElementsAre("12", "345", " ", "123", "456", "a", "1"));
  EXPECT_THAT(Words("tiny_aya", "12345 12345a"), ElementsAre("12", "345", " ", "123", "45", "a"));
  EXPECT_THAT(Words("superbpe", "a1234567, 12"), ElementsAre("a", "1", "234", "567", ", ", "12"));
  EXPECT_THAT(Words("superbpe", "½123½1234"), ElementsAre("½", "123½1", "234"));
}

TEST(PretokenizerTest, DeepseekFamiliesCutInSeveralPasses) {
  EXPECT_THAT(Words("deepseek-llm", "if x:\n中文y 12  "),
              ElementsAre("if", " x", ":", "\n", "中文", "y", " ", "12", "  "));
  EXPECT_THAT(Words("deepseek-v3", "x.foo 12345 中文ab!?\n"),
              ElementsAre("x", ".foo", " ", "123", "45", " ", "中文", "ab", "!?\n"));
  EXPECT_THAT(Words("falcon", "a1234 b's`"), ElementsAre("a", "123", "4", " b", "'", "s", "`"));
}

TEST(PretokenizerTest, OtherFamiliesKeepTheirOwnRules) {
  EXPECT_THAT(Words("qwen35", "a\u0301b"), ElementsAre("a\u0301b"));
  EXPECT_THAT(Words("bloom", "Hello, world!"), ElementsAre("Hello", ",", " world", "!"));
  EXPECT_THAT(Words("seed-coder", "a;\n\nb"), ElementsAre("a", ";", "\n\n", "b"));
  EXPECT_THAT(Words("bailingmoe", "a12"), ElementsAre("a", "1", "2"));
  EXPECT_THAT(Words("exaone-moe", "a b c1"), ElementsAre("a b c", "1"));
  EXPECT_THAT(Words("chameleon", "IMGIMGABZ x     y"),
              ElementsAre("IMGIMGABZ", " x", "    ", " y"));
  EXPECT_THAT(Words("gemma4", "a b\n\nc"), ElementsAre("a b", "\n\n", "c"));
  EXPECT_THAT(Words("laguna", "a \n b"), ElementsAre("a", " ", "\n", " b"));
  EXPECT_THAT(Words("youtu", "한국abc"), ElementsAre("한국", "abc"));
}

std::vector<std::string> AllNames() {
  std::istringstream in(PretokenizerNames());
  std::vector<std::string> names;
  for (std::string name; std::getline(in >> std::ws, name, ',');) names.push_back(name);
  return names;
}

TEST(PretokenizerTest, WordsCoverEveryTextWithoutGapOrEmptyWord) {
  std::mt19937_64 random(3);
  ASSERT_GT(AllNames().size(), 80u);
  for (const std::string& pre : AllNames()) {
    for (int round = 0; round < 50; ++round) {
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

// Splits a quarter of a megabyte of `unit` between two of `edge`.
void ExpectSplitsLinearly(const Pretokenizer& pretokenizer, const std::string& unit,
                          const std::string& edge) {
  ExpectGrowsLinearly(unit, 1 << 18, [&](const std::string& run) {
    const std::string text = edge + run + edge;
    std::vector<size_t> ends;
    pretokenizer.Split(text, ends);
    EXPECT_EQ(ends.back(), text.size());
  });
}

TEST(PretokenizerTimingTest, ManyOfAnyCharactersAreCutInLinearTime) {
  const std::vector<std::string> units = {" ",   "\n",     "a",       "A",        "aA",   "7",
                                          "!",   "日",     "👍",       " \n",      "\n ",  "'",
                                          "½",   "\u0301", "a\u0301", "\t ",      "\r\n", "한",
                                          "日A", "\x01",   "\xFF",    "\xE6\x97", "7a",   "\u3000"};
  const PretokenizerFamily* last = nullptr;
  for (const std::string& pre : AllNames()) {
    if (FindPretokenizerFamily(pre) == last) continue;
    last = FindPretokenizerFamily(pre);
    const auto pretokenizer = Pretokenizer::Create(pre);
    ASSERT_TRUE(pretokenizer);
    for (const std::string& unit : units) {
      SCOPED_TRACE(pre);
      ExpectSplitsLinearly(**pretokenizer, unit, "");
      if (HasFatalFailure()) return;
    }
    // The character before a run may be the reason why the run is scanned again and again.
    for (const std::string edge : {"x", "中", "1", "!"}) {
      SCOPED_TRACE(pre + " between " + edge);
      ExpectSplitsLinearly(**pretokenizer, " ", edge);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(PretokenizerTest, AnUnknownNameIsNamedAndOursAreListed) {
  const auto result = Pretokenizer::Create("no-such");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(result.error().detail, HasSubstr("'no-such'"));
  for (const char* name : {"default", "gpt-2", "llama-bpe", "qwen2", "starcoder", "smollm"}) {
    EXPECT_THAT(result.error().detail, HasSubstr(name));
  }
}

}  // namespace
}  // namespace kvgate::tokenizer::split
