#include "base/json_escape.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace kvgate {
namespace {

std::string Escaped(std::string_view text, JsonShort shorts) {
  std::string out;
  AppendJsonEscaped(text, shorts, out);
  return out;
}

// Returns the escape's text and its length, or "invalid".
std::string Decoded(std::string_view json, LoneSurrogate lone = LoneSurrogate::kReplaced) {
  std::string text;
  const size_t length = DecodeJsonEscape(json, 0, lone, text);
  return length == 0 ? "invalid" : text + "|" + std::to_string(length);
}

TEST(JsonEscapeTest, OnlyWhatMustBeIsEscaped) {
  const std::string_view plain = "a/\x7F \u00e9\u2028\xFF";
  EXPECT_EQ(Escaped(plain, JsonShort::kAll), plain);
  EXPECT_EQ(Escaped("\"\\", JsonShort::kNone), R"(\"\\)");
  EXPECT_EQ(Escaped(std::string_view("\0\x1F", 2), JsonShort::kAll), R"(\u0000\u001f)");
}

TEST(JsonEscapeTest, EachWriterHasItsShortEscapes) {
  EXPECT_EQ(Escaped("\n\r\t\b\f", JsonShort::kNone), R"(\u000a\u000d\u0009\u0008\u000c)");
  EXPECT_EQ(Escaped("\n\r\t\b\f", JsonShort::kLines), R"(\n\r\t\u0008\u000c)");
  EXPECT_EQ(Escaped("\n\r\t\b\f", JsonShort::kAll), R"(\n\r\t\b\f)");
  std::string out;
  AppendJsonEscape('<', JsonShort::kAll, out);
  EXPECT_EQ(out, R"(\u003c)");
}

TEST(JsonEscapeTest, EscapesAreDecodedWithTheirLength) {
  EXPECT_EQ(Decoded(R"(\n)"), "\n|2");
  EXPECT_EQ(Decoded(R"(\/rest)"), "/|2");
  EXPECT_EQ(Decoded(R"(\u00e9)"), "\u00e9|6");
  EXPECT_EQ(Decoded(R"(\u20AC1)"), "\u20ac|6");
  EXPECT_EQ(Decoded(R"(\ud83d\ude00)"), "\U0001F600|12");
}

TEST(JsonEscapeTest, AnUnknownOrCutEscapeIsInvalid) {
  for (const char* const bad :
       {"\\", R"(\x)", R"(\')", R"(\u)", R"(\u12)", R"(\u12g4)", R"(\u-123)", R"(\U0041)"}) {
    EXPECT_EQ(Decoded(bad), "invalid") << bad;
  }
}

TEST(JsonEscapeTest, ASurrogateWithoutItsPartnerIsReplacedOrKept) {
  for (const char* const lone :
       {R"(\ud83d)", R"(\ud83dx)", R"(\ud83d\n)", R"(\ud83d\ud83d)", R"(\ud83d\u12)"}) {
    EXPECT_EQ(Decoded(lone), "\uFFFD|6") << lone;
    EXPECT_EQ(Decoded(lone, LoneSurrogate::kKept), "\xED\xA0\xBD|6") << lone;
  }
  EXPECT_EQ(Decoded(R"(\ude00)"), "\uFFFD|6");
  EXPECT_EQ(Decoded(R"(\ude00)", LoneSurrogate::kKept), "\xED\xB8\x80|6");
}

}  // namespace
}  // namespace kvgate
