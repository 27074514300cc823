#include "engine/text/grammar/rules/grammar.h"

#include <gtest/gtest.h>

namespace kvgate::grammar::rules {
namespace {

TEST(GrammarTest, FactsFollowFromTheParts) {
  Grammar grammar;
  const RuleId empty = grammar.AddRule("empty");
  const RuleId never = grammar.AddRule("never");
  const RuleId text = grammar.AddRule("text");
  const ExprId maybe = grammar.Optional(grammar.Literal("x"));
  grammar.SetBody(empty, grammar.Sequence({maybe, grammar.Repeat(grammar.Literal("y"), {})}));
  grammar.SetBody(never, grammar.Sequence({grammar.Literal("a"), grammar.Rule(never)}));
  const ExprId choice = grammar.Choice({grammar.Rule(never), grammar.Literal("b")});
  grammar.SetBody(text, choice);
  const GrammarFacts facts = Analyze(grammar);
  EXPECT_TRUE(facts.nullable[grammar.body(empty).value]);
  EXPECT_FALSE(facts.nullable[choice.value]);
  EXPECT_TRUE(facts.productive[choice.value]);
  EXPECT_FALSE(facts.productive[grammar.body(never).value]);
  EXPECT_EQ(facts.unproductive, never);
  EXPECT_FALSE(facts.left_recursive);
}

TEST(GrammarTest, LeftRecursionIsSeenThroughWhatMayBeEmpty) {
  Grammar grammar;
  const RuleId a = grammar.AddRule("a");
  const RuleId b = grammar.AddRule("b");
  grammar.SetBody(a, grammar.Choice({grammar.Rule(b), grammar.Literal("end")}));
  grammar.SetBody(b, grammar.Sequence({grammar.Optional(grammar.Literal("x")), grammar.Rule(a)}));
  EXPECT_TRUE(Analyze(grammar).left_recursive);
}

TEST(GrammarTest, ALongChainOfRulesNeedsNoStack) {
  Grammar grammar;
  RuleId last = grammar.AddRule("last");
  grammar.SetBody(last, grammar.Literal("x"));
  for (int i = 0; i < 200'000; ++i) {
    const RuleId rule = grammar.AddRule("link");
    grammar.SetBody(rule, grammar.Rule(last));
    last = rule;
  }
  const GrammarFacts facts = Analyze(grammar);
  EXPECT_TRUE(facts.productive[grammar.body(last).value]);
}

}  // namespace
}  // namespace kvgate::grammar::rules
