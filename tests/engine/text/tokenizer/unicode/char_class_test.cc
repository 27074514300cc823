#include "engine/text/tokenizer/unicode/char_class.h"

#include <gtest/gtest.h>

namespace kvgate::tokenizer::unicode {
namespace {

TEST(CharClassTest, ClassesAreUnicodes) {
  const CharClassTable& classes = CharClassTable::Get();
  for (const char32_t c : {U'a', U'Z', U'é', U'日', U'ß', U'\u02B0', U'\U0001D400'}) {
    EXPECT_EQ(classes[c], CharClass::kLetter) << uint32_t(c);
  }
  for (const char32_t c : {U'0', U'½', U'Ⅷ', U'\u0663'}) {
    EXPECT_EQ(classes[c], CharClass::kNumber) << uint32_t(c);
  }
  for (const char32_t c : {U' ', U'\t', U'\r', U'\u0085', U'\u00a0', U'\u2028', U'\u3000'}) {
    EXPECT_EQ(classes[c], CharClass::kSpace) << uint32_t(c);
  }
  for (const char32_t c : {U'\u0301', U'\u0903', U'\U000E0100'}) {
    EXPECT_EQ(classes[c], CharClass::kMark) << uint32_t(c);
  }
  // The Mongolian vowel separator is not white space; surrogates and unassigned code points have no
  // class.
  for (const char32_t c : {U'!', U'\u180e', U'\u200b', char32_t{0xD800}, char32_t{0x10FFFF},
                           char32_t{0x110000}, char32_t{0xFFFFFFFF}}) {
    EXPECT_EQ(classes[c], 0) << uint32_t(c);
  }
}

}  // namespace
}  // namespace kvgate::tokenizer::unicode
