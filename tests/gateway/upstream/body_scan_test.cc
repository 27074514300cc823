#include "gateway/upstream/body_scan.h"

#include <gtest/gtest.h>

#include "tests/gateway/upstream/encoders.h"

namespace kvgate::upstream {
namespace {

BodyScan Scan(std::string body) {
  const std::string before = body;
  BodyScan scan = ScanBody(body);
  EXPECT_EQ(body, before);
  return scan;
}

TEST(ScanBodyTest, FindsTheModelWhereverItStands) {
  EXPECT_EQ(Scan(R"({"model":"a"})").model, "a");
  EXPECT_EQ(Scan(R"({"messages":[{"model":"inner"}],"x":{"model":"y"},"model":"b"})").model, "b");
  EXPECT_EQ(Scan(R"({"mod\u0065l":"\u0061b"})").model, "ab");
  EXPECT_TRUE(Scan(R"({"stream":true,"model":"a"})").stream);
  EXPECT_FALSE(Scan(R"({"stream":"true"})").stream);
}

TEST(ScanBodyTest, OfDuplicateKeysTheLastCounts) {
  EXPECT_EQ(Scan(R"({"model":"allowed","model":"other"})").model, "other");
  EXPECT_EQ(Scan(R"({"model":"allowed","mod\u0065l":"other"})").model, "other");
  EXPECT_EQ(Scan(R"({"model":"allowed","model":{"a":[1]},"z":1})").model, "");
}

TEST(ScanBodyTest, WhatValuesHoldIsNotItsMatter) {
  const BodyScan scan =
      Scan(R"({"a":1e999999,"b":123456789012345678901234567890,"c":NaN,"model":"m"})");
  EXPECT_TRUE(scan.readable);
  EXPECT_EQ(scan.model, "m");
}

TEST(ScanBodyTest, WhatIsNoObjectIsNotReadable) {
  for (const char* bad :
       {"", "[]", "7", "{", R"({"model":"a")", "\x1f\x8b\x08", "{\"model\" \"a\"}",
        R"({"model":"a"}{"model":"b"})", R"({"model":"a"} x)", R"({}[])"}) {
    EXPECT_FALSE(Scan(bad).readable) << bad;
  }
}

TEST(ScanBodyTest, ALargeBodyIsReadToItsEnd) {
  std::string body = R"({"messages":[")" + std::string(5'000'000, 'x') + R"("],"model":"m"})";
  EXPECT_EQ(Scan(std::move(body)).model, "m");
}

TEST(DecodeBodyTest, EachCodingIsTakenOff) {
  const std::string body = R"({"model":"m","pad":")" + std::string(100'000, 'x') + R"("})";
  for (const char* coding : {"gzip", "zstd", "br"}) {
    const std::string encoded = Encode(coding, body);
    EXPECT_EQ(DecodeBody(coding, encoded, body.size()), body) << coding;
    EXPECT_EQ(DecodeBody(coding, encoded, body.size() - 1), std::nullopt) << coding;
    EXPECT_EQ(DecodeBody(coding, encoded.substr(0, encoded.size() - 1), 1 << 20), std::nullopt);
    EXPECT_EQ(DecodeBody(coding, encoded + "x", 1 << 20), std::nullopt) << coding;
    EXPECT_EQ(DecodeBody(coding, body, 1 << 20), std::nullopt) << coding;
    EXPECT_EQ(DecodeBody(coding, "", 1 << 20), std::nullopt) << coding;
  }
}

TEST(DecodeBodyTest, WhatHasTwoReadingsHasNone) {
  EXPECT_EQ(DecodeBody("deflate", Encode("deflate", "{}"), 1 << 20), std::nullopt);
  EXPECT_EQ(DecodeBody("gzip, zstd", Encode("gzip", "{}"), 1 << 20), std::nullopt);
  EXPECT_EQ(DecodeBody("x", "{}", 1 << 20), std::nullopt);
}

TEST(DecodeBodyTest, MembersAreJoinedSoThatNoneCanHide) {
  const std::string first = R"({"model":"allowed")";
  const std::string second = R"(,"model":"other"})";
  std::optional<std::string> body =
      DecodeBody("gzip", Encode("gzip", first) + Encode("gzip", second), 1 << 20);
  ASSERT_TRUE(body);
  EXPECT_EQ(ScanBody(*body).model, "other");
}

TEST(DecodeBodyTest, ABombIsGivenUp) {
  const std::string bomb = Encode("zstd", std::string(size_t{256} << 20, ' '));
  EXPECT_EQ(DecodeBody("zstd", bomb, size_t{1} << 30), std::nullopt);
}

TEST(GlobMatchesTest, StarsAndQuestionMarks) {
  EXPECT_TRUE(GlobMatches("*", ""));
  EXPECT_TRUE(GlobMatches("gpt-*", "gpt-5.6"));
  EXPECT_FALSE(GlobMatches("gpt-*", "xgpt-5"));
  EXPECT_TRUE(GlobMatches("*-mini", "gpt-mini-mini"));
  EXPECT_TRUE(GlobMatches("a*b*c", "a-bb-b-c"));
  EXPECT_FALSE(GlobMatches("a*b*c", "a-b-d"));
  EXPECT_TRUE(GlobMatches("o?", "o3"));
  EXPECT_FALSE(GlobMatches("o?", "o"));
  EXPECT_FALSE(GlobMatches("", "a"));
}

}  // namespace
}  // namespace kvgate::upstream
