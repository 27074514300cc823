#include "base/utf8.h"

#include <gtest/gtest.h>

namespace kvgate::tokenizer {
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
  // The examples of the Unicode Standard, tables 3-8 to 3-11.
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

}  // namespace
}  // namespace kvgate::tokenizer
