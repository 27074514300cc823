#include "engine/text/grammar/language/gbnf.h"

#include <gtest/gtest.h>

#include "tests/engine/text/grammar/grammar_fixture.h"

namespace kvgate::grammar::language {

using mask::Automaton;

namespace {

// This is json.gbnf as llama.cpp ships it.
constexpr std::string_view kJsonGbnf = R"GBNF(
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}
)GBNF";

TEST(GbnfTest, TheJsonGrammarOfLlamaCppTakesJson) {
  const Automaton json = FromGbnf(kJsonGbnf);
  for (const std::string_view text :
       {"{}", R"({"a":1})", R"({"a": [1, -2.5e+3, "x\n\u00e9"], "b": {"c": null}})",
        "{\n    \"é👍\": true\n}"}) {
    EXPECT_TRUE(Takes(json, text)) << text;
  }
  for (const std::string_view text :
       {"", "[]", R"({"a":01x})", R"({"a":1,})", "{\"a\": \"\n\"}", "{\"\xC3\": 1}", "{} x"}) {
    EXPECT_FALSE(Takes(json, text)) << text;
  }
}

TEST(GbnfTest, EveryPartMeansWhatLlamaCppSays) {
  const auto takes = [](std::string_view grammar, std::string_view text) {
    return Takes(FromGbnf(grammar), text);
  };
  EXPECT_TRUE(takes(R"(root ::= "\x41\u00e9\U0001F44D\t\"\\")", "Aé👍\t\"\\"));
  EXPECT_TRUE(takes("root ::= [a-c\\]\\n]+", "ab]\n"));
  EXPECT_FALSE(takes("root ::= [^a-c]", "b"));
  EXPECT_TRUE(takes("root ::= [^a-c]", "日"));
  EXPECT_FALSE(takes("root ::= [^a-c]", "\xE6"));
  EXPECT_TRUE(takes("root ::= [a-]+", "a-"));
  EXPECT_TRUE(takes("root ::= . \"x\"", "\nx"));
  EXPECT_TRUE(takes("root ::= \"a\" | \"b\"\n  | \"c\"", "c"));
  EXPECT_TRUE(takes("root ::= \"a\" |\n \"b\"", "b"));
  EXPECT_TRUE(takes("root ::= (\"a\"\n \"b\")? other-1\nother-1 ::= \"c\"", "abc"));
  EXPECT_TRUE(takes("root ::= \"\"", ""));
  EXPECT_TRUE(takes("other ::= \"x\"\nroot ::= other # note\n# end", "x"));
}

TEST(GbnfTest, RepetitionsHaveTheirBounds) {
  for (const auto& [suffix, min, max] : {std::tuple<std::string, int, int>{"*", 0, 99},
                                         {"+", 1, 99},
                                         {"?", 0, 1},
                                         {"{3}", 3, 3},
                                         {"{2,}", 2, 99},
                                         {"{1,4}", 1, 4},
                                         {"{,2}", 0, 2},
                                         {"{0}", 0, 0},
                                         {"{5,40}", 5, 40}}) {
    for (const std::string part : {"\"ab\"", "(\"a\" (\"b\" | \"bX\"))"}) {
      const Automaton automaton = FromGbnf("root ::= \"<\" " + part + suffix + " \">\"");
      std::string text = "<";
      for (int count = 0; count < 50; ++count, text += "ab") {
        ASSERT_EQ(Takes(automaton, text + ">"), min <= count && count <= max) << suffix << count;
      }
    }
  }
  const Automaton nested = FromGbnf("root ::= ((\"a\"{2} \"b\"?){2,3}){2}");
  EXPECT_TRUE(Takes(nested, "aabaaaaaab"));
  EXPECT_FALSE(Takes(nested, "aaaaaa"));
  EXPECT_FALSE(Takes(nested, "aaaaaaaaaaaaaa"));
  const Automaton empty = FromGbnf("root ::= (\"a\"? \"b\"?){3} \"c\"");
  EXPECT_TRUE(Takes(empty, "c"));
  EXPECT_TRUE(Takes(empty, "aabbc"));
  EXPECT_FALSE(Takes(empty, "aaaac"));
}

TEST(GbnfTest, FaultsAreNamedWithTheirPlace) {
  const auto has = [](std::string_view grammar, std::string_view part) {
    const std::string error = GbnfError(grammar);
    EXPECT_NE(error.find(part), std::string::npos) << grammar << " -> " << error;
  };
  has("", "no rule 'root'");
  has("root ::= other", "line 1, column 10: there is no rule 'other'");
  has("root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: the rule 'root' is there twice");
  has("root ::= \"a", "line 1, column 10: this \" has no end");
  has("root ::=\n  [a", "line 2, column 3: this [ has no ]");
  has("root ::= [b-a]", "column 11: this range ends");
  has("root ::= (\"a\"", "column 10: this ( has no )");
  has("root ::= \"\\q\"", "column 11: this escape");
  has("root ::= \"a\"{3,1}", "the second number");
  has("root ::= \"a\"{999999}", "at most 100000 repetitions");
  has("root : \"a\"", "expected ::=");
  has("root ::= \"a\" )", "column 14: expected");
  has("root ::= \"\\uD800\"", "not a character");
  has("root ::= \xFF", "column 10: this is not UTF-8");
  has(std::string("root ::= ") + std::string(100, '(') + "\"a\"", "more than 64 (");
  has("root ::= \"a\" root", "the rule 'root' never comes to an end");
  has("root ::= (\"a\"?){100}", "may be empty");
}

TEST(GbnfTest, LeftRecursionIsRefusedByName) {
  EXPECT_NE(GbnfError("root ::= a\na ::= a \"x\" | \"y\"").find("'a' is left recursive"),
            std::string::npos);
  EXPECT_NE(GbnfError("root ::= b root \"x\" | \"y\"\nb ::= \"b\"?").find("left recursive"),
            std::string::npos);
  EXPECT_EQ(GbnfError("root ::= \"y\" root | \"z\""), "");
  EXPECT_EQ(GbnfError("root ::= ([ \\t] root)?"), "");
}

}  // namespace
}  // namespace kvgate::grammar::language
