#include "engine/text/tokenizer/unicode/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvgate::tokenizer::unicode {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Matches(const Regex& regex, std::string_view text) {
  std::vector<std::string> found;
  const Regex::Matcher matcher;
  for (size_t position = 0; position < text.size();) {
    const Regex::Match match = matcher.Next(regex, text, position);
    if (match.begin == text.size()) break;
    found.emplace_back(text.substr(match.begin, match.end - match.begin));
    position = std::max(match.end, position + 1);
  }
  return found;
}

std::vector<std::string> MatchesOfOniguruma(std::string_view pattern, std::string_view text) {
  auto regex = Regex::Compile(pattern, Regex::Dialect::kOniguruma);
  EXPECT_TRUE(regex) << regex.error().ToString();
  return regex ? Matches(*regex, text) : std::vector<std::string>();
}

TEST(RegexTest, OnigurumasWhiteSpaceIsUnicodes) {
  EXPECT_THAT(MatchesOfOniguruma("\\s+", "a \u3000b\u180e\u0085c"),
              ElementsAre(" \u3000", "\u0085"));
  EXPECT_THAT(MatchesOfOniguruma("[^\\s]+", "a \u180e"), ElementsAre("a", "\u180e"));
  EXPECT_THAT(MatchesOfOniguruma("\\S", "a\u180e "), ElementsAre("a", "\u180e"));
}

TEST(RegexTest, OnigurumasWordCharactersIncludeMarksAndFractions) {
  EXPECT_THAT(MatchesOfOniguruma("\\w+", "a\u0301_½ ⑻!"), ElementsAre("a\u0301_½"));
  EXPECT_THAT(MatchesOfOniguruma("[^\\w\\s]+", "a- !b"), ElementsAre("-", "!"));
}

TEST(RegexTest, OnigurumasAnchorsStandAtLines) {
  EXPECT_THAT(MatchesOfOniguruma("^.", "ab\ncd"), ElementsAre("a", "c"));
  EXPECT_THAT(MatchesOfOniguruma(".$", "ab\ncd"), ElementsAre("b", "d"));
}

TEST(RegexTest, AClassInsideAClassIsAUnion) {
  EXPECT_THAT(MatchesOfOniguruma("[a[bc]d]+", "xabcdx[]"), ElementsAre("abcd"));
  EXPECT_THAT(MatchesOfOniguruma(" ?[^(\\s|[.,!?])]+", "ab, cd!"), ElementsAre("ab", " cd"));
  EXPECT_THAT(MatchesOfOniguruma("[[:alpha:]1]+", "a1-"), ElementsAre("a1"));
  EXPECT_THAT(MatchesOfOniguruma("[]a]+", "]a-"), ElementsAre("]a"));
}

TEST(RegexTest, WhatDoesNotCompileIsNamed) {
  for (const char* pattern : {"(", "[\\p{L}&&[^a]]", "[a[^b]]", "\\p{Nonsense}", "\\h"}) {
    const auto regex = Regex::Compile(pattern, Regex::Dialect::kOniguruma);
    ASSERT_FALSE(regex) << pattern;
    EXPECT_EQ(regex.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(regex.error().detail, HasSubstr(pattern));
  }
}

TEST(RegexTest, AHostileExpressionGivesUpInsteadOfHanging) {
  const auto regex = Regex::Compile("(a+)+$", Regex::Dialect::kOniguruma);
  ASSERT_TRUE(regex);
  const std::string text = std::string(64, 'a') + "b";
  const Regex::Match match = Regex::Matcher().Next(*regex, text, 0);
  EXPECT_EQ(match.begin, text.size());
}

TEST(RegexTest, AMatcherServesManyExpressions) {
  const Regex letters = Regex::MustCompile("\\p{L}+");
  const Regex digits = Regex::MustCompile("\\p{N}+");
  const Regex::Matcher matcher;
  EXPECT_EQ(matcher.Next(letters, "1ab2", 0).begin, 1u);
  EXPECT_EQ(matcher.Next(digits, "1ab2", 1).begin, 3u);
}

}  // namespace
}  // namespace kvgate::tokenizer::unicode
