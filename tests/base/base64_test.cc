#include "base/base64.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

namespace kvgate {
namespace {

std::pair<std::string, size_t> Decoded(std::string_view text,
                                       Base64Alphabet alphabet = Base64Alphabet::kStandard) {
  std::string out;
  const size_t num_digits = DecodeBase64(text, out, alphabet);
  return {out, num_digits};
}

TEST(Base64Test, TheExamplesOfTheStandardAreWrittenAndReadBack) {
  const std::pair<std::string, std::string> examples[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : examples) {
    EXPECT_EQ(EncodeBase64(bytes), text);
    EXPECT_EQ(Decoded(text).first, bytes);
  }
}

TEST(Base64Test, EveryByteComesBackFromTextOfAnyLength) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    const std::string text = EncodeBase64(bytes);
    EXPECT_EQ(text.size() % 4, 0u);
    EXPECT_EQ(Decoded(text).first, bytes);
    bytes += static_cast<char>(i * 7);
  }
}

TEST(Base64Test, TextLongerThanOnePartHasPaddingAtItsEndOnly) {
  const std::string bytes((size_t{3} << 20) + 1, '\xFF');
  const std::string text = EncodeBase64(bytes);
  EXPECT_EQ(text.size(), (size_t{4} << 20) + 4);
  EXPECT_EQ(text.find('='), text.size() - 2);
  EXPECT_TRUE(Decoded(text).first == bytes);
}

TEST(Base64Test, DecodingStopsAtTheFirstByteThatIsNoDigit) {
  EXPECT_EQ(Decoded("Zm8=Zm8="), std::pair(std::string("fo"), size_t{3}));
  EXPECT_EQ(Decoded("Zm9v Zm9v"), std::pair(std::string("foo"), size_t{4}));
  EXPECT_EQ(Decoded("Zm9v\x80"), std::pair(std::string("foo"), size_t{4}));
  EXPECT_EQ(Decoded("Zm9vY"), std::pair(std::string("foo"), size_t{5})) << "six bits are no byte";
}

TEST(Base64Test, TheOtherAlphabetIsReadOnRequest) {
  EXPECT_EQ(Decoded("-_-_"), std::pair(std::string(), size_t{0}));
  EXPECT_EQ(Decoded("-_-_", Base64Alphabet::kEither).first, Decoded("+/+/").first);
  EXPECT_EQ(Decoded("+/+/", Base64Alphabet::kEither).first, "\xFB\xFF\xBF");
}

TEST(Base64Test, DecodedBytesAreAppended) {
  std::string out = "a";
  EXPECT_EQ(DecodeBase64("Zg", out), 2u);
  EXPECT_EQ(out, "af");
}

}  // namespace
}  // namespace kvgate
