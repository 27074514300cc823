#include "engine/text/grammar/rules/string_format.h"

#include <gtest/gtest.h>

#include "tests/engine/text/grammar/grammar_fixture.h"

namespace kvgate::grammar::rules {
namespace {

TEST(StringFormatTest, FormatsTakeGoodValuesAndNoBadOnes) {
  const auto takes = [](const std::string& format, const std::string& text) {
    return Takes(FromSchema("{\"type\":\"string\",\"format\":\"" + format + "\"}"),
                 "\"" + text + "\"");
  };
  EXPECT_TRUE(takes("date", "2024-12-31"));
  EXPECT_FALSE(takes("date", "2024-02-30"));
  EXPECT_FALSE(takes("date", "2024-04-31"));
  EXPECT_TRUE(takes("time", "23:59:59.5+01:00"));
  EXPECT_FALSE(takes("time", "24:00:00Z"));
  EXPECT_TRUE(takes("date-time", "2024-01-02T03:04:05Z"));
  EXPECT_FALSE(takes("date-time", "2024-01-02 03:04:05"));
  EXPECT_TRUE(takes("duration", "P3Y6M"));
  EXPECT_FALSE(takes("duration", "P"));
  EXPECT_TRUE(takes("email", "a.b@example.org"));
  EXPECT_FALSE(takes("email", "a..b@example.org"));
  EXPECT_TRUE(takes("hostname", "a-b.example"));
  EXPECT_FALSE(takes("hostname", "-a"));
  EXPECT_TRUE(takes("ipv4", "255.0.10.199"));
  EXPECT_FALSE(takes("ipv4", "256.0.0.1"));
  EXPECT_TRUE(takes("ipv6", "2001:db8:0:0:0:0:0:1"));
  EXPECT_TRUE(takes("uri", "https://example.org/a/b?c=d#e"));
  EXPECT_FALSE(takes("uri", "example.org"));
  EXPECT_TRUE(takes("uuid", "123e4567-e89b-12d3-a456-426614174000"));
  EXPECT_FALSE(takes("uuid", "123e4567"));
}

TEST(StringFormatTest, EveryNameHasAPattern) {
  EXPECT_FALSE(PatternOfFormat("regex"));
  EXPECT_NE(FormatNames().find("date-time"), std::string::npos);
}

}  // namespace
}  // namespace kvgate::grammar::rules
