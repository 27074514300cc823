#include "engine/text/grammar/rules/char_dfa.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "tests/engine/text/grammar/grammar_fixture.h"

namespace kvgate::grammar::rules {
namespace {

TextCondition Condition(std::string_view pattern, bool negated = false) {
  auto parsed = ParsePattern(pattern, {});
  if (!parsed) throw std::runtime_error(parsed.error().ToString());
  return {.pattern = std::move(*parsed), .negated = negated};
}

CharDfa MustMake(const std::vector<TextCondition>& conditions) {
  auto dfa = MakeDfa(conditions, {});
  if (!dfa) throw std::runtime_error(dfa.error().ToString());
  return std::move(*dfa);
}

TEST(CharDfaTest, ATextMeetsAllConditions) {
  const CharDfa dfa = MustMake({Condition("^[a-d]+$"), Condition("ab"), Condition("cc", true)});
  std::mt19937 random(3);
  int num_taken = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (size_t i = random() % 7; i > 0; --i) text += "abcde"[random() % 5];
    const bool wanted = !text.empty() && text.find('e') == std::string::npos &&
                        text.find("ab") != std::string::npos &&
                        text.find("cc") == std::string::npos;
    ASSERT_EQ(dfa.Takes(text), wanted) << text;
    num_taken += wanted ? 1 : 0;
  }
  EXPECT_GT(num_taken, 80);
}

TEST(CharDfaTest, EqualStatesAreOneAndDeadOnesAreNone) {
  EXPECT_EQ(MustMake({Condition("^(a|b|ab|ba)*$")}).states.size(), 1u);
  EXPECT_EQ(MustMake({Condition("^(xa|ya|za)$")}).states.size(), 3u);
  EXPECT_TRUE(MustMake({Condition("^a$"), Condition("^b$")}).empty());
  EXPECT_FALSE(MustMake({Condition("^a$"), Condition("^b$")}).Takes("a"));
}

TEST(CharDfaTest, TheLongestTextIsKnownWhereThereIsOne) {
  EXPECT_EQ(MustMake({Condition("^a{2,5}b?$")}).LengthMax(), 6u);
  EXPECT_EQ(MustMake({Condition("^a+$")}).LengthMax(), std::nullopt);
  EXPECT_EQ(MustMake({Condition("^a{2,5}b?$")}).states[0].min_rest, 2u);
}

// Patterns that need exponentially many states, or very many, are refused soon: the bound on states
// makes all of them cost about what the first one costs.
TEST(CharDfaTimingTest, WhatExplodesIsRefusedWithinABound) {
  constexpr double kTimesMax = 20;
  constexpr double kSecondsFloor = 0.25;
  double first_seconds = 0;
  for (const std::string_view pattern :
       {"(a|b)*a(a|b){24}", "^(.*a.{15}b|.*b.{15}a)$", "^(a?){60}(b?){60}(c?){60}x(.*)y.{12}$",
        "^((((((a*)*b)*c)*d)*e)*f){90}$", "^([^x]|x[^y]){1000}$"}) {
    const auto began = std::chrono::steady_clock::now();
    auto parsed = ParsePattern(pattern, {});
    if (parsed) {
      const std::vector<TextCondition> conditions = {{.pattern = std::move(*parsed)},
                                                     Condition("a.{9}b", true)};
      const auto dfa = MakeDfa(conditions, {});
      ASSERT_FALSE(dfa.has_value()) << pattern;
      EXPECT_EQ(dfa.error().code, ErrorCode::kTooLarge);
    } else {
      EXPECT_EQ(parsed.error().code, ErrorCode::kTooLarge);
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    if (first_seconds == 0) first_seconds = std::max(took.count(), kSecondsFloor);
    EXPECT_LT(took.count(), kTimesMax * first_seconds) << pattern;
  }
}

TEST(CharDfaTest, LengthsThatCannotBeCountedAreCappedOrRefused) {
  const CharDfa dfa = MustMake({Condition("^[a-z]+(-[a-z]+)*$")});
  const auto takes = [&](RepeatCount length, std::string_view text) -> std::optional<bool> {
    Grammar grammar;
    JsonParts parts(grammar);
    const auto made = AddTexts(grammar, parts, dfa,
                               {.length = length, .spelling = Spelling::kPlain, .rules_max = 100});
    if (!made) return std::nullopt;
    const RuleId root = grammar.AddRule("root");
    grammar.SetBody(root, *made);
    grammar.SetRoot(root);
    return Takes(MustBuild(std::move(grammar)), text);
  };
  EXPECT_EQ(takes({.min = 0, .max = 1000}, std::string(20, 'x')), true);
  EXPECT_EQ(takes({.min = 0, .max = 1000}, std::string(200, 'x')), false);
  EXPECT_EQ(takes({.min = 0, .max = kUnbounded}, std::string(200, 'x')), true);
  EXPECT_EQ(takes({.min = 900, .max = 1000}, ""), std::nullopt);
  EXPECT_EQ(takes({.min = 3, .max = 4}, "a-b"), true);
  EXPECT_EQ(takes({.min = 3, .max = 4}, "ab"), false);
  EXPECT_EQ(takes({.min = 3, .max = 4}, "abcd-"), false);
}

}  // namespace
}  // namespace kvgate::grammar::rules
