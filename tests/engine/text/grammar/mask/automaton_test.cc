#include "engine/text/grammar/mask/automaton.h"

#include <gtest/gtest.h>

#include "tests/engine/text/grammar/grammar_fixture.h"

namespace kvgate::grammar::mask {
namespace {

TEST(AutomatonTest, DistancesAreThoseOfTheShortestWay) {
  const Automaton automaton =
      FromGbnf("root ::= \"abc\" | \"(\" root \")\" | list\nlist ::= \"[\" (\"x\"{3}){2} \"]\"");
  EXPECT_EQ(automaton.node(automaton.start()).min_bytes, 3u);
  EXPECT_EQ(automaton.node(automaton.start()).min_frames, 0u);
  const Automaton deep = FromGbnf("root ::= \"<\" a \">\"\na ::= \"(\" b \")\"\nb ::= \"b\"{5}");
  EXPECT_EQ(deep.node(deep.start()).min_bytes, 9u);
  EXPECT_EQ(deep.node(deep.start()).min_frames, 3u);
}

TEST(AutomatonTest, PartsWithoutTextAreLeftOut) {
  rules::Grammar grammar;
  const rules::RuleId root = grammar.AddRule("root");
  grammar.SetRoot(root);
  grammar.SetBody(root, grammar.Choice({grammar.Sequence({grammar.Literal("a"), grammar.Nothing()}),
                                        grammar.Sequence({grammar.Literal("b"),
                                                          grammar.Optional(grammar.Nothing())})}));
  const Automaton automaton = MustBuild(grammar);
  StateTable states(automaton);
  EXPECT_EQ(states.Next(states.Start(), 'a'), StateTable::kDead);
  EXPECT_TRUE(Takes(automaton, "b"));
  grammar.SetBody(root, grammar.Nothing());
  EXPECT_FALSE(Automaton::Build(grammar, {}).has_value());
}

TEST(AutomatonTest, BytesThatNothingTellsApartAreOneClass) {
  const Automaton automaton = FromGbnf("root ::= [a-z]+ | \"0\"");
  EXPECT_EQ(automaton.class_of('b'), automaton.class_of('y'));
  EXPECT_NE(automaton.class_of('a'), automaton.class_of('A'));
  EXPECT_NE(automaton.class_of('0'), automaton.class_of('1'));
  EXPECT_EQ(automaton.num_classes(), 5u);  // below '0', '0', up to 'a', 'a' to 'z', above 'z'
}

TEST(AutomatonTest, ItsSizeIsBoundedAndRepetitionCostsNothing) {
  const auto large = language::ParseGbnf("root ::= [a-z]{1,100000} \"abcdefgh\"", {});
  EXPECT_TRUE(Automaton::Build(*large, {.nodes_max = 30}).has_value());
  const auto refused = Automaton::Build(*large, {.nodes_max = 8});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kTooLarge);
}

}  // namespace
}  // namespace kvgate::grammar::mask
