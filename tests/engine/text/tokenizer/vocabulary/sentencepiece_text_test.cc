#include "engine/text/tokenizer/vocabulary/sentencepiece_text.h"

#include <gtest/gtest.h>

namespace kvgate::tokenizer::vocabulary {
namespace {

TEST(SentencepieceTextTest, SpacesBecomeMarksAndBack) {
  EXPECT_EQ(EscapeSpaces("a  b"), "a▁▁b");
  EXPECT_EQ(UnescapeSpaces("▁a▁"), " a ");
  EXPECT_EQ(EscapeSpaces(""), "");
}

TEST(SentencepieceTextTest, AByteTokenIsTwoHexDigitsInItsForm) {
  EXPECT_EQ(ParseByteToken("<0x0A>"), uint8_t{10});
  EXPECT_EQ(ParseByteToken("<0xff>"), uint8_t{255});
  for (const char* text : {"<0x0>", "<0x0G>", "<0x0A", "0x0A>", "<0x-1>", "<0x00A>", ""}) {
    EXPECT_FALSE(ParseByteToken(text)) << text;
  }
}

TEST(SentencepieceTextTest, AWordBeginsAtAMarkBehindAnotherCharacter) {
  EXPECT_TRUE(CrossesWords("a▁b"));
  EXPECT_TRUE(CrossesWords("▁a▁"));
  EXPECT_FALSE(CrossesWords("▁▁a"));
  EXPECT_FALSE(CrossesWords("▁▁"));
  EXPECT_EQ(FirstWord("▁▁ab▁c"), "▁▁ab");
  EXPECT_EQ(FirstWord("▁▁"), "▁▁");
  EXPECT_EQ(FirstWord("ab"), "ab");
}

}  // namespace
}  // namespace kvgate::tokenizer::vocabulary
