#include "engine/text/tokenizer/unicode/unicode_text.h"

#include <gtest/gtest.h>

#include "tests/engine/text/tokenizer/fixtures.h"

namespace kvgate::tokenizer::unicode {
namespace {

TEST(UnicodeTextTest, NormalFormsComposeAndDecompose) {
  const std::string text = "Å\u00e9e\u0301ﬁ한½";
  EXPECT_EQ(Normalize(text, NormalForm::kNfc), "Å\u00e9\u00e9ﬁ한½");
  EXPECT_EQ(Normalize("\u00e9한", NormalForm::kNfd), "e\u0301\u1112\u1161\u11ab");
  EXPECT_EQ(Normalize("ﬁ½\u3000", NormalForm::kNfkc), "fi1\u20442 ");
  EXPECT_EQ(Normalize("ﬁ\u00e9", NormalForm::kNfkd), "fie\u0301");
  // Combining marks are put in their canonical order.
  EXPECT_EQ(Normalize("q\u0307\u0323", NormalForm::kNfd), "q\u0323\u0307");
  EXPECT_EQ(Normalize("q\u0307\u0323", NormalForm::kNfc), "q\u0323\u0307");
  EXPECT_EQ(Normalize("plain", NormalForm::kNfkd), "plain");
}

TEST(UnicodeTextTest, BytesThatAreNoUtf8Stay) {
  EXPECT_EQ(Normalize("e\u0301\xFF\xC3", NormalForm::kNfc), "\u00e9\xFF\xC3");
  EXPECT_EQ(LowerCase("A\xFFΩ"), "a\xFFω");
  EXPECT_EQ(StripMarks("e\u0301\xFF"), "e\xFF");
}

TEST(UnicodeTextTest, LowerCaseIsByCharacter) {
  EXPECT_EQ(LowerCase("ÀΣİǅẞ"), "àσi\u0307ǆß");
  EXPECT_EQ(StripMarks("e\u0301\u0903x"), "ex");
}

TEST(UnicodeTextTest, PropertiesAreUnicodes) {
  for (const char32_t c : {U'!', U'$', U'~', U'…', U'“', U'।'}) EXPECT_TRUE(IsPunctuation(c));
  for (const char32_t c : {U'a', U' ', U'€', U'½', U'日'}) EXPECT_FALSE(IsPunctuation(c));
  for (const char32_t c : {U'a', U'_', U'9', U'é', U'\u0301', U'日'}) {
    EXPECT_TRUE(IsWordCharacter(c));
  }
  for (const char32_t c : {U' ', U'-', U'€', U'\u3000'}) EXPECT_FALSE(IsWordCharacter(c));
}

TEST(UnicodeTextTimingTest, AMegabyteOfMarksInTheWrongOrderIsNormalisedInLinearTime) {
  ExpectGrowsLinearly("\u0301\u0316", 1 << 20, [](const std::string& marks) {
    const std::string text = "a" + marks;
    Normalize(text, NormalForm::kNfc);
  });
}

}  // namespace
}  // namespace kvgate::tokenizer::unicode
