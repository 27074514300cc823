#include "engine/text/grammar/mask/state_table.h"

#include <gtest/gtest.h>

#include "tests/engine/text/grammar/grammar_fixture.h"

namespace kvgate::grammar::mask {
namespace {

StateId After(StateTable& states, std::string_view text) {
  StateId state = states.Start();
  for (const char byte : text) state = states.Next(state, static_cast<uint8_t>(byte));
  return state;
}

TEST(StateTableTest, EqualStatesAreOne) {
  const Automaton automaton = FromGbnf(
      "root ::= \"[\" (item (\",\" item)*)? \"]\"\n"
      "item ::= root | [a-z]+");
  StateTable states(automaton);
  EXPECT_EQ(After(states, "[a"), After(states, "[a,bcd,x"));
  EXPECT_EQ(After(states, "[[a],"), After(states, "[b,"));
  EXPECT_NE(After(states, "[a"), After(states, "[[a"));
  EXPECT_EQ(After(states, "[a]]"), StateTable::kDead);
  EXPECT_TRUE(states.is_complete(After(states, "[a]")));
}

TEST(StateTableTest, StacksOfAnAmbiguousGrammarDoNotMultiply) {
  const Automaton automaton =
      FromGbnf("root ::= \"(\" root \")\" | \"(\" root \"]\" | (\"x\" | \"x\" | [x-z])");
  StateTable states(automaton);
  const std::string open(100, '(');
  std::string text = open + "x";
  for (int i = 0; i < 100; ++i) text += i % 3 == 0 ? ']' : ')';
  EXPECT_TRUE(states.can_end(After(states, text)));
  EXPECT_LT(states.work(), 20'000u);
  EXPECT_EQ(After(states, open + "x" + std::string(101, ')')), StateTable::kDead);
}

TEST(StateTableTest, RightRecursionAndListsNeedNoStack) {
  const Automaton automaton = FromGbnf("root ::= [a-z] root | \".\"");
  StateTable states(automaton);
  EXPECT_TRUE(states.can_end(After(states, std::string(100'000, 'q') + ".")));
  EXPECT_LT(states.num_states(), 10u);
}

TEST(StateTableTest, WhatIsTooDeepIsNotBegunSoEveryStateCanEnd) {
  const Automaton automaton = FromGbnf("root ::= \"[\" root \"]\" | \"x\"");
  StateTable states(automaton);
  size_t depth = 0;
  StateId state = states.Start();
  while (true) {
    const StateId deeper = states.Next(state, '[');
    if (deeper == StateTable::kDead) break;
    state = deeper;
    ++depth;
  }
  EXPECT_GT(depth, 200u);
  EXPECT_LE(depth, StateTable::kFramesMax);
  std::string rest = "x" + std::string(depth, ']');
  for (const char byte : rest) state = states.Next(state, static_cast<uint8_t>(byte));
  EXPECT_TRUE(states.can_end(state));
}

TEST(StateTableTest, TheShortestEndingIsKnown) {
  const Automaton automaton = FromSchema(
      R"({"type":"object","properties":{"a":{"type":"string","minLength":4},
          "b":{"type":"array","items":{"type":"null"},"minItems":2}},"required":["a","b"]})");
  StateTable states(automaton);
  EXPECT_EQ(states.min_bytes(states.Start()),
            std::string_view(R"({"a":"xxxx","b":[null,null]})").size());
  EXPECT_EQ(states.min_bytes(After(states, R"({"a":"x)")),
            std::string_view(R"(xxx","b":[null,null]})").size());
  EXPECT_EQ(states.min_bytes(After(states, R"({"a":"xxxx","b":[null,null,null)")), 2u);
  EXPECT_EQ(states.min_bytes(After(states, R"({"a":"xxxx","b":[null,null]})")), 0u);
}

TEST(StateTableTest, CanonicalStatesForgetDepthAndFarCounts) {
  const Automaton automaton = FromSchema(
      R"({"$defs":{"t":{"type":"array","items":{"anyOf":[{"$ref":"#/$defs/t"},
          {"type":"string","maxLength":500}]}}},"$ref":"#/$defs/t"})");
  StateTable states(automaton);
  const std::string deep(40, '[');
  const std::string deeper(50, '[');
  EXPECT_NE(After(states, deep + "\"abc"), After(states, deeper + "\"a"));
  EXPECT_EQ(states.Canonical(After(states, deep + "\"abc")),
            states.Canonical(After(states, deeper + "\"a")));
  const std::string full = deep + "\"" + std::string(490, 'x');
  EXPECT_NE(states.Canonical(After(states, full)), states.Canonical(After(states, deep + "\"x")));
}

TEST(StateTableTest, AnImportedStateGoesOnAlike) {
  const Automaton automaton = FromSchema("{}");
  StateTable states(automaton);
  StateTable fresh(automaton);
  StateId state = fresh.Import(states, After(states, R"({"a":[[1,{"b":)"));
  EXPECT_LT(fresh.num_states(), states.num_states());
  for (const char byte : std::string_view(R"("x"}]]})")) {
    state = fresh.Next(state, static_cast<uint8_t>(byte));
  }
  EXPECT_TRUE(fresh.is_complete(state));
}

}  // namespace
}  // namespace kvgate::grammar::mask
