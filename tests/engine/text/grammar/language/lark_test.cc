#include "engine/text/grammar/language/lark.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/engine/text/grammar/grammar_fixture.h"

namespace kvgate::grammar::language {

using mask::Automaton;

namespace {

Result<rules::Grammar> Whole(std::string_view text, const TextForm& form, bool is_regex = false) {
  rules::Grammar grammar;
  const auto made = is_regex ? AddRegex(grammar, text, form) : AddLark(grammar, text, form);
  if (!made) return made.error();
  const rules::RuleId root = grammar.AddRule("root");
  grammar.SetBody(root, *made);
  grammar.SetRoot(root);
  return grammar;
}
Automaton FromLark(std::string_view text) { return MustBuild(Whole(text, {})); }
Automaton FromRegex(std::string_view text) { return MustBuild(Whole(text, {}, true)); }
ErrorCode CodeOf(std::string_view text) {
  const auto made = Whole(text, {});
  EXPECT_FALSE(made) << text;
  return made ? ErrorCode::kInternal : made.error().code;
}

// This is the grammar that Codex sends for apply_patch.
constexpr std::string_view kApplyPatch = R"lark(start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
)lark";

TEST(LarkTest, TheGrammarOfPatchesTakesPatches) {
  const Automaton patch = FromLark(kApplyPatch);
  EXPECT_TRUE(Takes(patch, "*** Begin Patch\n*** Add File: a \"b\".txt\n+x\n+\n*** End Patch"));
  EXPECT_TRUE(Takes(patch,
                    "*** Begin Patch\n*** Update File: a.c\n*** Move to: b.c\n@@ f()\n-old\n+new\n"
                    " same\n*** End of File\n*** Delete File: c\n*** End Patch\n"));
  EXPECT_FALSE(Takes(patch, "*** Begin Patch\n*** End Patch"));
  EXPECT_FALSE(Takes(patch, "*** Begin Patch\n*** Add File: a\nx\n*** End Patch"));
  EXPECT_FALSE(Takes(patch, "hello"));
}

TEST(LarkTest, InsideAJsonStringTheSameTextsAreEscaped) {
  const Automaton patch = MustBuild(Whole(kApplyPatch, {.spelling = rules::Spelling::kJson}));
  for (const std::string text :
       {"*** Begin Patch\n*** Add File: a \"b\".txt\n+x\\y\t\u00e9\n*** End Patch",
        "*** Begin Patch\n*** Delete File: c\n*** End Patch\n"}) {
    const std::string quoted = rules::QuoteJson(text);
    EXPECT_TRUE(Takes(patch, std::string_view(quoted).substr(1, quoted.size() - 2))) << quoted;
    EXPECT_FALSE(Takes(patch, text));
  }
}

TEST(LarkTest, RulesMayBeginWithThemselvesAndNest) {
  const Automaton sum = FromLark(R"lark(
// a calculator
?start: expr
expr: expr "+" term   -> add
    | expr "-" term
    | term
term.2: NUMBER | "(" expr ")"
%import common.NUMBER
%import common (WS_INLINE, CNAME -> NAME)
%ignore WS_INLINE
)lark");
  EXPECT_TRUE(Takes(sum, "1"));
  EXPECT_TRUE(Takes(sum, " 1 + (2.5e3 - 3) -4 "));
  EXPECT_FALSE(Takes(sum, "1 +"));
  EXPECT_FALSE(Takes(sum, "1 2"));
  EXPECT_FALSE(Takes(sum, "(1"));
}

TEST(LarkTest, PartsMeanWhatTheLanguageSays) {
  EXPECT_TRUE(Takes(FromLark("start: \"ab\"i \"0\"..\"9\" ~ 2..3"), "aB123"));
  EXPECT_FALSE(Takes(FromLark("start: \"ab\"i \"0\"..\"9\" ~ 2..3"), "ab1"));
  EXPECT_TRUE(
      Takes(FromLark("start: [\"x\"] (\"y\" | \"z\")* \"\\x41\\u00e9\\n\""), "yzA\u00e9\n"));
  EXPECT_TRUE(Takes(FromLark("start: A B?\nA: /[a-z]+\\/./s\nB: \"b\""), "ab/\n"));
  EXPECT_FALSE(Takes(FromLark("start: A\nA: /a./"), "a\n"));
  EXPECT_TRUE(Takes(FromLark("start: a\na: | \"x\" a"), "xxx"));
  EXPECT_TRUE(Takes(FromLark("start: ESCAPED_STRING\n%import common.ESCAPED_STRING"), R"("a\"b")"));
}

TEST(LarkTest, WhatIsNoGrammarAndWhatWeHaveNotAreToldApart) {
  for (const char* text : {"", "start \"x\"", "start: (\"x\"", "start: \"x", "begin: \"x\"",
                           "start: other", "start: /[/", "start: \"x\"\nstart: \"y\"",
                           "start: \"b\"..\"a\"", "start: \"x\" ~ 3..2", "start: /a/q"}) {
    EXPECT_EQ(CodeOf(text), ErrorCode::kInvalidArgument) << text;
  }
  for (const char* text :
       {"start: list{\"x\"}", "%declare A\nstart: A", "start: /(?=a)b/", "start: /a/i",
        "%import python.NAME\nstart: NAME", "start: X\n%import common.NOTHING -> X"}) {
    EXPECT_EQ(CodeOf(text), ErrorCode::kUnsupported) << text;
  }
  EXPECT_EQ(CodeOf("start: \"x\" ~ 2000"), ErrorCode::kTooLarge);
  EXPECT_EQ(CodeOf("start: " + std::string(100, '(') + "\"x\"" + std::string(100, ')')),
            ErrorCode::kTooLarge);
  const auto placed = Whole("start: \"x\"\n\nrule: )", {});
  ASSERT_FALSE(placed);
  EXPECT_NE(placed.error().detail.find("line 3"), std::string::npos) << placed.error().detail;
}

TEST(LarkTest, ARegularExpressionIsOfTheWholeText) {
  EXPECT_TRUE(Takes(FromRegex("[a-z]+\\d{2}"), "ab12"));
  EXPECT_FALSE(Takes(FromRegex("[a-z]+\\d{2}"), "ab123"));
  EXPECT_TRUE(Takes(FromRegex("^(?P<year>\\d+)$"), "2026"));
  EXPECT_FALSE(Takes(FromRegex("a|b"), "ab"));
  EXPECT_TRUE(Takes(FromRegex("(?s)a.b"), "a\nb"));
  EXPECT_TRUE(Takes(FromRegex("[]a]{2}[^]]"), "]ab")) << "as Python and Rust read classes";
  EXPECT_FALSE(Takes(FromRegex("[^]]+"), "a]"));
  EXPECT_TRUE(Takes(FromRegex("{[a-z]+}{2,}x{1,2}"), "{ab}}x"));
  EXPECT_TRUE(Takes(FromRegex("(?s)[.]\\..+"), "..\n"));
  const auto made = Whole("(?<=a)b", {}, true);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kUnsupported);
}

TEST(LarkTest, NoTerminalContainsTheMarkThatClosesTheText) {
  const Automaton text =
      MustBuild(Whole("(?s).*", {.spelling = rules::Spelling::kPlain, .closing = "</arg>"}, true));
  EXPECT_TRUE(Takes(text, "a < b </ar"));
  EXPECT_FALSE(Takes(text, "a </arg> b"));
}

TEST(LarkTest, WhatTakesTooMuchIsRefused) {
  rules::Budget budget(50);
  const auto made = Whole(kApplyPatch, {.budget = &budget});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kTooLarge);
}

// A grammar comes from the caller: however it is damaged, it compiles or gives an error.
TEST(LarkTest, ADamagedGrammarIsAGrammarOrAnError) {
  constexpr std::string_view kBytes = "/[]()|*+?~:\"\\.{}ax\n %\x80";
  std::mt19937 random(9);
  int num_made = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string text(kApplyPatch);
    for (size_t i = 1 + random() % 4; i > 0; --i) {
      const size_t at = random() % text.size();
      if (random() % 3 == 0) {
        text.erase(at, 1 + random() % 6);
      } else {
        text.insert(at, 1, kBytes[random() % kBytes.size()]);
      }
    }
    const auto made = Whole(text, {.spelling = rules::Spelling::kJson});
    if (!made) continue;
    const rules::GrammarFacts facts = rules::Analyze(*made);
    if (facts.left_recursive || facts.unproductive) continue;
    ASSERT_TRUE(Automaton::Build(*made, {})) << text;
    ++num_made;
  }
  EXPECT_GT(num_made, 100);
}

}  // namespace
}  // namespace kvgate::grammar::language
