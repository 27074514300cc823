#include "gateway/cli/terminal/figures.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace kvgate::cli::terminal {
namespace {

TEST(FiguresTest, TokensHaveThreeDigits) {
  EXPECT_EQ(Tokens(0), "0");
  EXPECT_EQ(Tokens(999), "999");
  EXPECT_EQ(Tokens(1000), "1.00K");
  EXPECT_EQ(Tokens(12'345), "12.3K");
  EXPECT_EQ(Tokens(99'951), "100K");
  EXPECT_EQ(Tokens(999'499), "999K");
  EXPECT_EQ(Tokens(999'500), "1.00M");
  EXPECT_EQ(Tokens(4'560'000), "4.56M");
  EXPECT_EQ(Tokens(999'500'000), "1.00G");
}

TEST(FiguresTest, BytesAreInPowersOf1024) {
  EXPECT_EQ(Bytes(0), "0 B");
  EXPECT_EQ(Bytes(1023), "1023 B");
  EXPECT_EQ(Bytes(1024), "1.0 KiB");
  EXPECT_EQ(Bytes(int64_t{10} << 20), "10 MiB");
  EXPECT_EQ(Bytes((int64_t{1} << 30) * 3 / 2), "1.5 GiB");
  EXPECT_EQ(Bytes((int64_t{1} << 20) - 1), "1.0 MiB") << "not 1024 KiB";
}

TEST(FiguresTest, SmallAmountsHaveMoreDecimals) {
  EXPECT_EQ(Dollars(123'000), "$0.000123");
  EXPECT_EQ(Dollars(12'345'600'000), "$12.3456");
  EXPECT_EQ(Dollars(1'234'567'000'000), "$1234.57");
  EXPECT_EQ(Dollars(-5'000'000), "-$0.005000");
}

TEST(FiguresTest, SharesOfNothingAreADash) {
  EXPECT_EQ(Percent(1, 3), "33.3 %");
  EXPECT_EQ(Percent(0, 0), "-");
}

TEST(FiguresTest, TimesHaveTheUnitThatPeopleUse) {
  EXPECT_EQ(Duration(-1), "-");
  EXPECT_EQ(Duration(0), "0.00 ms");
  EXPECT_EQ(Duration(310'000), "310 ms");
  EXPECT_EQ(Duration(999'600), "1.00 s");
  EXPECT_EQ(Duration(12'340'000), "12.3 s");
  EXPECT_EQ(Duration(240'000'000), "4 min");
  EXPECT_EQ(Duration(int64_t{3} * 3600 * 1'000'000), "3 h");
  EXPECT_EQ(Duration(int64_t{3} * 86'400 * 1'000'000), "3 d");
}

TEST(FiguresTest, TextOfOthersCannotMoveTheCursor) {
  EXPECT_EQ(Shown("gpt\x1b[2J\r\n", 40), "gpt?[2J??");
  EXPECT_EQ(Shown("\xc2\x9b"
                  "31mred",
                  40),
            "?31mred");
  EXPECT_EQ(Shown("a\xe2\x80\xae"
                  "b",
                  40),
            "a?b")
      << "the direction of text";
  EXPECT_EQ(Shown("\xff\xfe", 40), "??");
  EXPECT_EQ(Shown("", 40), "-");
}

TEST(FiguresTest, LongTextEndsInDotsWithinItsColumns) {
  EXPECT_EQ(Shown("abcdef", 6), "abcdef");
  EXPECT_EQ(Shown("abcdefg", 6), "abcd..");
  EXPECT_EQ(Shown("äöüäöüä", 6), "äöüä..");
  EXPECT_EQ(Shown("abc", 1), ".");
  EXPECT_EQ(Shown("abc", 2), "..");
  EXPECT_EQ(Padded("äö", 4), "äö  ");
  EXPECT_EQ(Padded("", 3), "-  ");
}

TEST(FiguresTest, BarsShowTheLastValues) {
  constexpr std::array<double, 4> kShares = {0.5, 0, 1, 7};
  EXPECT_EQ(Bars(kShares.data(), kShares.size(), 3), "▁██");
  EXPECT_EQ(Bars(kShares.data(), 0, 3), "");
}

}  // namespace
}  // namespace kvgate::cli::terminal
