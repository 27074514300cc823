#include "engine/text/grammar/rules/json_parts.h"

#include <gtest/gtest.h>

#include "tests/engine/text/grammar/grammar_fixture.h"

namespace kvgate::grammar::rules {

using mask::Automaton;

namespace {

template <typename Make>
Automaton Of(Make make) {
  Grammar grammar;
  JsonParts parts(grammar);
  const RuleId root = grammar.AddRule("root");
  grammar.SetBody(root, make(grammar, parts));
  grammar.SetRoot(root);
  return MustBuild(grammar);
}

TEST(JsonPartsTest, StringsCountCharacters) {
  const Automaton two =
      Of([](Grammar&, JsonParts& parts) { return parts.String({.min = 2, .max = 2}); });
  for (const std::string_view text :
       {R"("ab")", "\"é👍\"", R"("\n\u00e9")", R"("\"\\")", R"("\ud7ff\uE000")"}) {
    EXPECT_TRUE(Takes(two, text)) << text;
  }
  for (const std::string_view text : {R"("a")", R"("abc")", R"("\ud83d\ude00")", "\"a\n\"",
                                      R"("\x")", "\"a\xFF\"", R"("\u00e")"}) {
    EXPECT_FALSE(Takes(two, text)) << text;
  }
}

TEST(JsonPartsTest, OtherNamesAreAllButTheGivenOnes) {
  const std::vector<std::string> names = {"a", "abc", "é", "", "say \"x\""};
  const Automaton others =
      Of([&](Grammar&, JsonParts& parts) { return parts.NameOtherThan(names); });
  for (const std::string_view text : {R"("b")", R"("ab")", R"("abcd")", "\"è\"", "\"éé\""}) {
    EXPECT_TRUE(Takes(others, text)) << text;
  }
  for (const std::string_view text : {R"("a")", R"("abc")", "\"é\"", R"("")", R"("\u0061")"}) {
    EXPECT_FALSE(Takes(others, text)) << text;
  }
}

TEST(JsonPartsTest, AnyValueIsJson) {
  const Automaton any = Of([](Grammar&, JsonParts& parts) { return parts.AnyValue(); });
  for (const std::string_view text :
       {"null", "true", "-0.5e-7", "0", "12", R"({"a": [1, {"b":[]}],"c":{}})", "[[],\"x\"]"}) {
    EXPECT_TRUE(Takes(any, text)) << text;
  }
  for (const std::string_view text : {"", "01", "+1", "1.", ".5", "[1,]", "{a:1}", "[1,  2]"}) {
    EXPECT_FALSE(Takes(any, text)) << text;
  }
}

TEST(JsonPartsTest, QuotedTextReadsAsItself) {
  const std::string text = std::string("\0\x1F\"\\/\n", 6) + "é👍";
  EXPECT_EQ(nlohmann::json::parse(QuoteJson(text)).get<std::string>(), text);
}

}  // namespace
}  // namespace kvgate::grammar::rules
