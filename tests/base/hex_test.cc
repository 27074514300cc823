#include "base/hex.h"

#include <gtest/gtest.h>

#include <cstddef>

namespace kvgate {
namespace {

TEST(HexTest, EachDigitHasItsValueInBothCases) {
  for (size_t i = 0; i < kHexDigits.size(); ++i) {
    EXPECT_EQ(HexDigit(kHexDigits[i]), static_cast<int>(i));
    EXPECT_TRUE(IsHexDigit(kHexDigits[i]));
  }
  EXPECT_EQ(HexDigit('A'), 10);
  EXPECT_EQ(HexDigit('F'), 15);
}

TEST(HexTest, TheNeighboursOfDigitsAreNone) {
  for (const char c : {'/', ':', '@', 'G', '`', 'g', '\0', ' ', '\x80', '\xFF'}) {
    EXPECT_EQ(HexDigit(c), -1) << static_cast<int>(c);
    EXPECT_FALSE(IsHexDigit(c)) << static_cast<int>(c);
  }
}

}  // namespace
}  // namespace kvgate
