#include "engine/text/jinja/value/unicode.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace kvgate::jinja::value {
namespace {

TEST(UnicodeTest, Utf8IsReadForwardsAndBackwards) {
  const std::string text = "a\u00e9\u20ac\U0001F600";
  std::string again;
  for (size_t at = 0; at < text.size(); at += DecodeAt(text, at).size) {
    AppendUtf8(DecodeAt(text, at).code, again);
  }
  EXPECT_EQ(again, text);
  EXPECT_EQ(OffsetOfCharacter(text, 3), 6u);
  EXPECT_EQ(CharacterBefore(text, text.size()), 6u);
  EXPECT_EQ(CharacterBefore(text, 3), 1u);
}

TEST(UnicodeTest, PropertiesAndCasesAreThoseOfPython) {
  EXPECT_TRUE(IsAlpha(U'\u00e9') && IsAlpha(U'\u4e2d') && !IsAlpha(U'1') && !IsAlpha(U'\u0301'));
  EXPECT_TRUE(IsDecimal(U'\u0663') && !IsDecimal(U'\u00b2') && IsDigit(U'\u00b2'));
  EXPECT_TRUE(IsNumeric(U'\u00bd') && !IsDigit(U'\u00bd') && IsAlnum(U'\u00bd'));
  EXPECT_TRUE(IsSpace(U'\u3000') && IsSpace(0x1F) && !IsSpace(0x200B));
  EXPECT_TRUE(IsPrintable(U'\u00e9') && !IsPrintable(0xA0) && !IsPrintable(0x200B));
  EXPECT_TRUE(IsUpper(U'\u00c9') && IsLower(U'\u00e9') && IsTitlecase(0x1C5));
  EXPECT_EQ(ToUpper(U'\u00df'), (CaseMapping{'S', 'S', 0}));
  EXPECT_EQ(ToUpper(U'\u00e9')[0], char32_t{0xC9});
  EXPECT_EQ(ToLower(0x130), (CaseMapping{'i', 0x307, 0}));
  EXPECT_EQ(ToTitle(0x1C6)[0], char32_t{0x1C5});
  EXPECT_EQ(ToLower(U'Z')[0], U'z');
  EXPECT_TRUE(IsUpper(0x2160) && IsUpper(0x24B6) && !IsUpper(0x1C5)) << "Roman one, circled A";
  EXPECT_TRUE(IsLower(0xAA) && !IsLower(0x10FC) && !IsLower(0x1C5)) << "as in Unicode 14";
  EXPECT_EQ(ToUpper(0x1F600), (CaseMapping{0x1F600, 0, 0}));
  EXPECT_EQ(ToUpper(0x149), (CaseMapping{0x2BC, 'N', 0}));
  EXPECT_EQ(ToTitle(0xFB03), (CaseMapping{'F', 'f', 'i'}));
  EXPECT_EQ(ToLower(0x10400)[0], char32_t{0x10428});
}

}  // namespace
}  // namespace kvgate::jinja::value
