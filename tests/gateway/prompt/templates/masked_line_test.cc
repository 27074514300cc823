#include "gateway/prompt/templates/masked_line.h"

#include <gtest/gtest.h>

namespace kvgate::prompt::templates {
namespace {

// Returns the masked line with '#' for each mark.
std::string Mask(std::string_view line) {
  std::string text = MaskLine(line).text;
  for (char& c : text) c = c == kMark ? '#' : c;
  return text;
}

TEST(MaskedLine, WordsStayAndARunOfValuesBecomesOneMark) {
  EXPECT_EQ(Mask("You are working in /src/app on branch main as of 2025-06-03 09:00:12 (session "
                 "47664700, call 1)."),
            "You are working in # on branch main as of # (session #, call #).");
  EXPECT_EQ(Mask("  request id: 5f3a9c  "), "request id: #");
  EXPECT_EQ(Mask("Uptime: 512s, load 0.42"), "Uptime: #, load #");
  EXPECT_EQ(Mask("It is Tuesday, June 3, 2025, 9:00 PM UTC."), "It is #.");
  EXPECT_EQ(Mask("12 / 40 (30%)"), "#%)");
  EXPECT_EQ(Mask("Be brief; do not explain."), "Be brief; do not explain.");
}

TEST(MaskedLine, QuotedValuesOfMembersAndAttributesAreValues) {
  EXPECT_EQ(Mask(R"(<session_context trace_id="5131b20a-1c" env='prod'/>)"),
            R"(<session_context trace_id="#" env='#'/>)");
  EXPECT_EQ(Mask(R"({"branch": "a \" b", "dirty": 3, "deep": {"x":"y"}})"),
            R"({"branch": "#", "dirty": #, "deep": {"x":"#"}})");
  EXPECT_EQ(Mask(R"(Say "hello" to users, and name: "unclosed)"),
            R"(Say "hello" to users, and name: "unclosed)");
}

TEST(MaskedLine, TheSlashOfATagIsNoPath) {
  EXPECT_EQ(Mask("<env>linux</env>"), "<env>linux</env>");
  EXPECT_EQ(Mask("see ~/notes and ./run.sh or C:\\src\\x"), "see # and # or #");
  EXPECT_EQ(Mask("https://example.com/a?b"), "#?b");
}

TEST(MaskedLine, ItCountsItsWords) {
  EXPECT_EQ(MaskLine("request id: 5f3a9c").num_words, 2U);
  EXPECT_FALSE(MaskLine("Be brief.").has_value);
  EXPECT_TRUE(MaskLine("call 1").has_value);
  EXPECT_EQ(MaskLine("").num_words, 0U);
}

TEST(MaskedLine, CommonTokensStandInTheOrderOfBoth) {
  const auto tokens = [](std::string_view text) { return TokensOf(text); };
  const auto common =
      CommonTokens(tokens("on branch main as of now"), tokens("on branch fix it as of now"));
  EXPECT_EQ(NumConstant(common), 5U);
  ASSERT_EQ(common.size(), 6U);
  EXPECT_EQ(common[2], kAnyToken);
  EXPECT_EQ(CommonTokens(common, tokens("on branch x as of now")), common);
  EXPECT_EQ(NumConstant(CommonTokens(tokens("a b"), tokens("c d"))), 0U);
  EXPECT_EQ(TokensOf(std::string(4000, 'a') + std::string(4000, ' ') + "b").size(), 2U);
  std::string many;
  for (int i = 0; i < 200; ++i) many += "w ";
  EXPECT_EQ(TokensOf(many).size(), kTokensMax);
}

}  // namespace
}  // namespace kvgate::prompt::templates
