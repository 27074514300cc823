#include "engine/text/grammar/rules/pattern.h"

#include <gtest/gtest.h>

#include <regex>

#include "engine/text/grammar/rules/char_dfa.h"
#include "tests/engine/text/grammar/grammar_fixture.h"

namespace kvgate::grammar::rules {
namespace {

Result<mask::Automaton> Build(std::string_view text, RepeatCount length = {}) {
  Grammar grammar;
  JsonParts parts(grammar);
  KVGATE_TRY(Pattern pattern, ParsePattern(text, {}));
  const TextCondition condition = {.pattern = std::move(pattern)};
  KVGATE_TRY(const CharDfa dfa, MakeDfa({&condition, 1}, {}));
  KVGATE_TRY(const ExprId body, AddTexts(grammar, parts, dfa, {.length = length}));
  const RuleId root = grammar.AddRule("root");
  const ExprId quote = grammar.Literal("\"");
  grammar.SetBody(root, grammar.Sequence({quote, body, quote}));
  grammar.SetRoot(root);
  return mask::Automaton::Build(grammar, {});
}

TEST(PatternTest, RandomTextsMatchAsInTheStandardLibrary) {
  const std::vector<std::string> patterns = {"^[a-c]+$",
                                             "b",
                                             "^a|c$",
                                             "^(a|bc)*d?$",
                                             "^a{2,4}b{0,2}$",
                                             "^(?:ab?){3}$",
                                             "^[^a]{2,}$",
                                             "^a.c$",
                                             "a+?b*$",
                                             "^(a(b(c)?)?)?$",
                                             "^\\w\\d\\s?$",
                                             "^[\\d-]+$",
                                             "^\\x61\\u0062$",
                                             "^$",
                                             "^a{3}$|^b{3}$",
                                             "^(a*b){2}c{1,3}$",
                                             "[ab][bc]",
                                             "^a\\.b$|\\-",
                                             "^(?=.*b)(?!.*d)[a-d]{2,}$",
                                             "^(?!a|^b$)[ab]|^c$",
                                             "^(?!^[-.]*$)[a.-]*$"};
  std::mt19937 random(8);
  int num_matches = 0;
  for (const std::string& text : patterns) {
    const auto automaton = Build(text);
    ASSERT_TRUE(automaton.has_value()) << text << automaton.error().detail;
    const auto bounded = Build(text, {.min = 2, .max = 4});
    mask::StateTable states(*automaton);
    const std::regex regex(text, std::regex::ECMAScript);
    for (int round = 0; round < 400; ++round) {
      std::string subject;
      for (size_t i = random() % 7; i > 0; --i) subject += "aaabbbccd1- ."[random() % 13];
      const bool matches = std::regex_search(subject, regex);
      num_matches += matches ? 1 : 0;
      ASSERT_EQ(Takes(states, QuoteJson(subject)), matches) << text << " on " << subject;
      const bool fits = subject.size() >= 2 && subject.size() <= 4;
      if (bounded) {
        ASSERT_EQ(Takes(*bounded, QuoteJson(subject)), matches && fits) << text << subject;
      } else {
        ASSERT_FALSE(matches && fits) << text << subject;
      }
    }
  }
  EXPECT_GT(num_matches, 800);
}

TEST(PatternTest, ClassesTakeOnlyWhatAllReadersTake) {
  const auto takes = [](std::string_view pattern, std::string_view text) {
    return Takes(*Build(pattern), QuoteJson(text));
  };
  EXPECT_FALSE(takes("^\\w$", "é"));
  EXPECT_FALSE(takes("^\\W$", "é"));
  EXPECT_FALSE(takes("^[^\\s]$", "\u2003"));
  EXPECT_TRUE(takes("^[^x]$", "é"));
  EXPECT_TRUE(takes("^.$", "👍"));
  EXPECT_FALSE(takes("^.$", "\u2028"));
  EXPECT_TRUE(takes("^\\n\"\\\\$", "\n\"\\"));
  EXPECT_TRUE(takes("^(?<year>[0-9]{4})\\u{1F44D}$", "2026👍"));
}

TEST(PatternTest, WhatIsNotSupportedIsNamedWithItsPlace) {
  const auto error = [](std::string_view pattern) {
    const auto built = ParsePattern(pattern, {});
    return built ? std::string() : built.error().detail;
  };
  EXPECT_NE(error("a\\b").find("the escape \\b at character 3"), std::string::npos)
      << error("a\\b");
  EXPECT_NE(error("(?=a)").find("a group of this kind"), std::string::npos);
  EXPECT_NE(error("(?<!a)").find("a group of this kind"), std::string::npos);
  EXPECT_NE(error("(a)\\1").find("escape \\1"), std::string::npos);
  EXPECT_NE(error("(^a|b)").find("^ elsewhere"), std::string::npos);
  EXPECT_NE(error("a$b").find("$ elsewhere"), std::string::npos);
  EXPECT_NE(error("\\p{L}").find("escape \\p"), std::string::npos);
  for (const std::string_view bad :
       {"(a", "[a", "*", "a{2", "a{3,1}", "[b-a]", "a)", "\\", "\\x1"}) {
    EXPECT_NE(error(bad), "") << bad;
  }
  EXPECT_NE(error("((a{100}){100}){100}").find("more than"), std::string::npos);
}

}  // namespace
}  // namespace kvgate::grammar::rules
