#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace kvgate {
namespace {

std::string Repair(std::string_view text) {
  std::string out;
  const size_t taken = AppendValidUtf8(text, out);
  return out + "|" + std::string(text.substr(taken));
}

TEST(Utf8Test, EveryScalarValueIsWrittenAndReadBackAndNoSurrogateIs) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    std::string text;
    AppendUtf8(c, text);
    const Utf8Step step = NextUtf8(text);
    if (c >= 0xD800 && c < 0xE000) {
      ASSERT_EQ(step.status, Utf8Status::kInvalid);
      continue;
    }
    ASSERT_EQ(step.status, Utf8Status::kValid);
    ASSERT_EQ(step.code_point, c);
    ASSERT_EQ(step.length, text.size());
    ASSERT_EQ(ValidUtf8Bytes(text), text.size());
    for (size_t cut = 1; cut < text.size(); ++cut) {
      ASSERT_EQ(NextUtf8(std::string_view(text).substr(0, cut)).status, Utf8Status::kIncomplete);
    }
  }
}

TEST(Utf8Test, IllFormedPartsAreReplacedOneByOneAsTheStandardRecommends) {
  // These are the examples of the Unicode Standard, tables 3-8 to 3-11.
  EXPECT_EQ(Repair("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41|");
  EXPECT_EQ(Repair("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41|");
  EXPECT_EQ(Repair("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41\uFFFD\uFFFD\x42|");
  EXPECT_EQ(Repair("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFD\x41|");
}

TEST(Utf8Test, AnUnfinishedCharacterAtTheEndIsLeftForLater) {
  EXPECT_EQ(Repair("ab\xF0\x9F\x91"), "ab|\xF0\x9F\x91");
  EXPECT_EQ(Repair("long ascii text\xC3"), "long ascii text|\xC3");
}

TEST(Utf8Test, TheValidPrefixEndsAtTheFirstIllFormedByteWhereverItStands) {
  for (size_t at = 0; at < 24; ++at) {
    const std::string text = std::string(at, 'x') + "\xFF" + std::string(16, 'y');
    EXPECT_EQ(ValidUtf8Bytes(text), at);
  }
}

TEST(Utf8Test, TextWithOverlongFormsSurrogatesOrCutCharactersIsNotValid) {
  EXPECT_TRUE(IsValidUtf8(""));
  EXPECT_TRUE(IsValidUtf8("plain, and \u00e9\u20ac\U0001F600 all well"));
  for (const std::string bad : {"\x80", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80",
                                "\xF4\x90\x80\x80", "\xF5", "\xC3", "\xE2\x82", "\xF0\x9F\x98"}) {
    EXPECT_FALSE(IsValidUtf8(bad));
    EXPECT_EQ(ValidUtf8Bytes("0123456789" + bad), 10u);
  }
}

TEST(Utf8Test, CharactersAreCountedByTheirFirstBytes) {
  EXPECT_EQ(CountUtf8Characters(""), 0u);
  EXPECT_EQ(CountUtf8Characters("a\u00e9\u20ac\U0001F600"), 4u);
  EXPECT_EQ(CountUtf8Characters("\xFF\x80z"), 2u);
}

TEST(Utf8Test, ACutFallsBetweenCharacters) {
  const std::string_view text = "a\u00e9\u20ac\U0001F600";  // they begin at 0, 1, 3 and 6
  const size_t cuts[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10};
  for (size_t at = 0; at <= text.size(); ++at) EXPECT_EQ(Utf8CutBefore(text, at), cuts[at]) << at;
  EXPECT_EQ(Utf8CutBefore("\x80\x80", 1), 0u);
}

}  // namespace
}  // namespace kvgate
