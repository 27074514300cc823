#include "engine/text/grammar/language/lark_text.h"

#include <gtest/gtest.h>

namespace kvgate::grammar::language {
namespace {

TEST(LarkTextTest, AGrammarBecomesItsRules) {
  const auto rules = ParseLark(
      "start: a | B -> name\n   | \"c\"~2\n!a.1: [B] /x\\/y/s\nB: \"b\"i\n%ignore \" \"\n", {});
  ASSERT_TRUE(rules) << rules.error().ToString();
  EXPECT_EQ(rules->rules.size(), 3u);
  EXPECT_EQ(rules->ignored.size(), 1u);
  const LarkNode& start = rules->nodes[rules->rules.at("start")];
  ASSERT_EQ(start.kind, LarkKind::kChoice);
  EXPECT_EQ(start.children.size(), 3u);
  const LarkNode& a = rules->nodes[rules->nodes[rules->rules.at("a")].children[0]];
  ASSERT_EQ(a.children.size(), 2u);
  EXPECT_EQ(rules->nodes[a.children[0]].kind, LarkKind::kRepeat);
  EXPECT_EQ(rules->nodes[a.children[1]].text, "x\\/y");
  EXPECT_TRUE(rules->nodes[a.children[1]].dot_is_all);
}

TEST(LarkTextTest, ImportsBringWhatTheyAreMadeOfUnderNamesOfTheirOwn) {
  const auto rules = ParseLark("%import common.INT -> N\nDIGIT: \"x\"\nstart: N DIGIT\n", {});
  ASSERT_TRUE(rules) << rules.error().ToString();
  EXPECT_TRUE(rules->rules.contains("N"));
  EXPECT_EQ(rules->nodes[rules->rules.at("DIGIT")].kind, LarkKind::kChoice);
  EXPECT_FALSE(ParseLark("%import common.INT\nINT: \"x\"\nstart: INT\n", {})) << "twice";
}

TEST(LarkTextTest, TerminalsAreWrittenInCapitals) {
  EXPECT_TRUE(IsTerminal("LF"));
  EXPECT_TRUE(IsTerminal("_EXP"));
  EXPECT_FALSE(IsTerminal("rule"));
  EXPECT_FALSE(IsTerminal("_rule"));
}

TEST(LarkTextTest, LimitsHold) {
  EXPECT_EQ(ParseLark(std::string(200, ' '), {.bytes_max = 100}).error().code,
            ErrorCode::kTooLarge);
  EXPECT_EQ(ParseLark("start: \"a\" \"b\" \"c\"", {.parts_max = 2}).error().code,
            ErrorCode::kTooLarge);
}

}  // namespace
}  // namespace kvgate::grammar::language
