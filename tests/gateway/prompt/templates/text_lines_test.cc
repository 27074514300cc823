#include "gateway/prompt/templates/text_lines.h"

#include <gtest/gtest.h>

#include <string>

namespace kvgate::prompt::templates {
namespace {

// Returns the pairs as "before>now", with '#' behind changed values and '*' behind changed words.
std::string Pairs(std::string_view before, std::string_view now) {
  const TextLines old(before, nullptr);
  const TextLines own(now, &old);
  std::string text;
  for (const LinePair& pair : AlignLines(old, own)) {
    text +=
        (text.empty() ? "" : " ") + std::to_string(pair.before) + ">" + std::to_string(pair.now);
    if (pair.change == LineChange::kValues) text += '#';
    if (pair.change == LineChange::kWords) text += '*';
  }
  return text;
}

TEST(TextLines, ItHoldsTheLinesThatAreNotBlank) {
  const std::string text = "one\r\n\n  two 2 \n\t\nthree";
  const TextLines lines(text, nullptr);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].In(text), "one");
  EXPECT_EQ(lines[1].In(text), "two 2");
  EXPECT_EQ(lines[2].In(text), "three");
  EXPECT_EQ(lines.MaskBefore(0), kTextBegin);
  EXPECT_EQ(lines.MaskAfter(0), lines[1].mask);
  EXPECT_EQ(lines.MaskAfter(2), kTextEnd);
  EXPECT_EQ(TextLines("", nullptr).size(), 0U);
}

TEST(TextLines, LinesOfAnEarlierVersionHaveTheMaskThatTheyHad) {
  const std::string text = "a 1\nb 2\nc 3\nd 4";
  const TextLines before(text, nullptr);
  const TextLines now("new 9\na 1\nc 3\nd 5", &before);
  EXPECT_EQ(now[1].mask, before[0].mask);
  EXPECT_EQ(now[2].mask, before[2].mask);
  EXPECT_EQ(now[3].mask, before[3].mask);
  EXPECT_NE(now[3].hash, before[3].hash);
}

TEST(TextLines, ValuesChangeWhereTheMaskIsEqual) {
  EXPECT_EQ(Pairs("rules\nit is now 10:31\nend", "rules\nit is now 10:32\nend"), "0>0 1>1# 2>2");
  // Also where lines were inserted, removed or moved.
  EXPECT_EQ(Pairs("a\nb\nit is now 10:31\nc", "it is now 10:32\nnew one\nc\na"), "2>0# 3>2 0>3");
}

TEST(TextLines, ALineOfFewWordsIsKnownByANeighbour) {
  EXPECT_EQ(Pairs("a\nid 1\nb", "a\nid 2\nb"), "0>0 1>1# 2>2");
  EXPECT_EQ(Pairs("a\nid 1\nb\nc\nd", "a\nb\nc\nid 2\nd"), "0>0 2>1 3>2 4>4");
}

TEST(TextLines, WordsChangeBetweenTheSameLines) {
  EXPECT_EQ(Pairs("a\nbranch main\nb", "a\nbranch fix\nb"), "0>0 1>1* 2>2");
  EXPECT_EQ(Pairs("a\none\ntwo\nb", "a\nfour\nfive\nb"), "0>0 1>1* 2>2* 3>3");
  EXPECT_EQ(Pairs("a\none\nb", "a\nfour\nfive\nb"), "0>0 2>3") << "which of the two is it?";
  EXPECT_EQ(Pairs("be brief", "be long"), "") << "another text";
}

TEST(TextLines, AShortValueIsKnownByTheWordsInFrontOfIt) {
  const TextLines lines("calls so far\n---\n602\nbe brief", nullptr);
  EXPECT_TRUE(lines[2].may_change);
  EXPECT_FALSE(lines[2].stands_alone);
  EXPECT_EQ(lines.ContextOf(2), std::optional<size_t>(0));
  EXPECT_TRUE(lines[0].stands_alone);
  EXPECT_EQ(Pairs("calls so far\n601\nbe brief", "calls so far\n602\nbe brief"), "0>0 1>1# 2>2");
  // Nothing says what such a value is of, or the words are too far away.
  EXPECT_FALSE(TextLines("602\nbe brief", nullptr)[0].may_change);
  const TextLines far("calls\n-\n--\n---\n----\n602", nullptr);
  EXPECT_FALSE(far[5].may_change);
  EXPECT_EQ(far.ContextOf(5), std::nullopt);
  EXPECT_TRUE(TextLines("8a81ec2f\nbe brief", nullptr)[0].stands_alone) << "an id says what it is";
}

TEST(TextLines, RepeatedLinesAreToldApartByTheLinesBesideThem) {
  const std::string before = "a\nit is now 1\nb\nit is now 2\nc";
  const TextLines lines(before, nullptr);
  EXPECT_TRUE(lines[1].is_repeated && lines[1].may_change);
  EXPECT_EQ(lines[1].mask, lines[3].mask);
  EXPECT_NE(lines.KeyOf(1), lines.KeyOf(3));
  EXPECT_EQ(Pairs(before, "a\nit is now 3\nb\nit is now 4\nc"), "0>0 1>1# 2>2 3>3# 4>4");
  // The first one has moved.
  EXPECT_EQ(Pairs(before, "b\nit is now 4\nc\na\nit is now 3\nb"), "2>0 3>1# 4>2 0>3 1>4#");
  // The lines beside both are the same.
  EXPECT_FALSE(TextLines("a\nit is now 1\nb\na\nit is now 2\nb", nullptr)[1].may_change);
}

TEST(TextLines, ItemsOfAListCodeAndBillingHeadersNeverChange) {
  EXPECT_EQ(Pairs("x\nstep 1 is done\nstep 2 is done\ny", "x\nstep 1 is done\nstep 3 is done\ny"),
            "0>0 1>1 3>3");
  EXPECT_EQ(Pairs("x\n```\nint a = 1;\n```\ny", "x\n```\nint a = 2;\n```\ny"), "0>0 1>1 3>3 4>4");
  EXPECT_EQ(Pairs("x-anthropic-billing-header: cch=1;\ny", "x-anthropic-billing-header: cch=2;\ny"),
            "1>1");
}

}  // namespace
}  // namespace kvgate::prompt::templates
