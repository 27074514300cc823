#include "engine/text/grammar/rules/free_text.h"

#include <gtest/gtest.h>

#include "tests/engine/text/grammar/grammar_fixture.h"

namespace kvgate::grammar::rules {

using mask::Automaton;

namespace {

Automaton Build(const std::vector<std::pair<std::string, bool>>& marks, bool may_end) {
  Grammar grammar;
  const RuleId root = grammar.AddRule("root");
  std::vector<FreeTextExit> exits;
  for (const auto& [mark, at_begin] : marks) {
    exits.push_back({.mark = mark, .then = grammar.Literal("!"), .at_begin = at_begin});
  }
  grammar.SetBody(root, FreeText(grammar, {.exits = exits, .may_end = may_end}));
  grammar.SetRoot(root);
  return MustBuild(std::move(grammar));
}

TEST(FreeTextTest, RandomTextsGoOnBehindTheFirstMarkAlone) {
  const std::vector<std::string> marks = {"aab", "abb", "<ab>"};
  const Automaton automaton =
      Build({{marks[0], false}, {marks[1], false}, {marks[2], false}}, true);
  mask::StateTable states(automaton);
  std::mt19937 random(4);
  int num_marked = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text;
    for (size_t i = random() % 12; i > 0; --i) text += "aabb<>!\xff"[random() % 8];
    size_t end = std::string::npos;  // just past the mark that ends first
    for (const std::string& mark : marks) {
      const size_t at = text.find(mark);
      if (at != std::string::npos) end = std::min(end, at + mark.size());
    }
    const bool wanted = end == std::string::npos || text.substr(end) == "!";
    ASSERT_EQ(Takes(states, text), wanted) << text;
    num_marked += end != std::string::npos && wanted ? 1 : 0;
  }
  EXPECT_GT(num_marked, 5);
}

TEST(FreeTextTest, AMarkAtTheBeginningIsOneOnlyThere) {
  const Automaton automaton = Build({{"{\"a\"", true}, {"{\"b\"", true}, {"<x>", false}}, true);
  for (const std::string_view text :
       {"{\"a\"!", "{\"b\"!", "x{\"a\"x", "{\"c\"", "{\"a", "{<x>!", "", " {\"a\"?"}) {
    EXPECT_TRUE(Takes(automaton, text)) << text;
  }
  for (const std::string_view text : {"{\"a\"", "{\"a\"x", "{\"<x>?", "<x>"}) {
    EXPECT_FALSE(Takes(automaton, text)) << text;
  }
}

TEST(FreeTextTest, WhatMayNotEndNeedsAMark) {
  const Automaton automaton = Build({{"</think>", false}}, false);
  EXPECT_TRUE(Takes(automaton, "so </think </think>!"));
  EXPECT_FALSE(Takes(automaton, "so"));
}

}  // namespace
}  // namespace kvgate::grammar::rules
