#include "engine/text/tokenizer/split/text_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kvgate::tokenizer::split {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<TextPattern> Parse(const nlohmann::json& json) {
  return TextPattern::FromJson(JsonNode(json, "pattern"));
}

// Returns "a" for a match, and "(a)" for text between matches.
std::vector<std::string> Found(const nlohmann::json& json, std::string_view text) {
  const auto pattern = Parse(json);
  EXPECT_TRUE(pattern) << pattern.error().ToString();
  std::vector<std::string> out;
  for (const Span& span : pattern->Find(text)) {
    const std::string part(text.substr(span.begin, span.end - span.begin));
    out.push_back(span.is_match ? part : "(" + part + ")");
  }
  return out;
}

TEST(TextPatternTest, ALiteralIsNoExpression) {
  EXPECT_THAT(Found({{"String", "a."}}, "xa.a.b"), ElementsAre("(x)", "a.", "a.", "(b)"));
  EXPECT_THAT(Found({{"String", ""}}, "ab"), ElementsAre("(ab)"));
}

TEST(TextPatternTest, AnExpressionMayMatchNothing) {
  EXPECT_THAT(Found({{"Regex", "[0-9]+"}}, "a12b"), ElementsAre("(a)", "12", "(b)"));
  EXPECT_THAT(Found({{"Regex", "(?=é)"}}, "aéé"), ElementsAre("(a)", "", "(é)", "", "(é)"));
}

TEST(TextPatternTest, KnownExpressionsGoByTheScanner) {
  const std::string qwen = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
                           R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  EXPECT_THAT(Found({{"Regex", qwen}}, "a'S 12"), ElementsAre("a", "'S", " ", "1", "2"));
}

TEST(TextPatternTest, MatchesAreReplacedByTheContentAsItIs) {
  EXPECT_EQ(Parse({{"Regex", " {2,}"}})->Replace("a  b c", "$1"), "a$1b c");
}

TEST(TextPatternTest, WhatIsNoPatternIsNamed) {
  EXPECT_THAT(Parse({{"Other", "x"}}).error().detail, HasSubstr("pattern is neither"));
  EXPECT_THAT(Parse({{"Regex", "("}}).error().detail, HasSubstr("pattern.Regex"));
  EXPECT_EQ(Parse({{"Regex", "("}}).error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace kvgate::tokenizer::split
