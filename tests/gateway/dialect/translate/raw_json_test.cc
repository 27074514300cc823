#include "gateway/dialect/translate/raw_json.h"

#include <gtest/gtest.h>

#include <string>

namespace kvgate::dialect::translate {
namespace {

TEST(RawJsonTest, WhatIsNotJsonIsRefused) {
  for (const std::string_view bad :
       {"", "{", "{\"a\":}", "{\"a\" 1}", "[1,]", "01", "\"\\x\"", "\"\\u12g4\"", "\"a\nb\"", "tru",
        "{\"a\":1}x", "\"\\\"", "[1 2]", "{1:2}", "-", "1.", "\"\xff\""}) {
    EXPECT_FALSE(RawJson::Parse(bad)) << bad;
  }
  std::string deep(100, '[');
  deep += std::string(100, ']');
  EXPECT_FALSE(RawJson::Parse(deep));
}

TEST(RawJsonTest, ValuesAreTheBytesThatStandThere) {
  const std::string text =
      R"( { "n" : 12345678901234567890 , "f":1.0, "s" : "a\/b\\", "o":{ "z":1, "a":2 },)"
      R"("l":[ 1 , "]" ] } )";
  const auto json = RawJson::Parse(text);
  ASSERT_TRUE(json);
  const RawObject object(*json);
  EXPECT_EQ(object["n"].text(), "12345678901234567890");
  EXPECT_EQ(object["f"].text(), "1.0");
  EXPECT_EQ(object["f"].Integer(), 1);
  EXPECT_EQ(object["s"].text(), R"("a\/b\\")");
  EXPECT_EQ(object["s"].String(), R"(a/b\)");
  EXPECT_EQ(object["o"].text(), R"({ "z":1, "a":2 })");
  ASSERT_EQ(object["l"].Elements().size(), 2);
  EXPECT_EQ(object["l"].Elements()[1].String(), "]");
  EXPECT_FALSE(object["absent"]);
  EXPECT_FALSE(object["n"].Integer());
}

TEST(RawJsonTest, OfAKeyThatStandsTwiceTheLastOneCounts) {
  const auto json = RawJson::Parse(R"({"a":1,"\u0061":2})");
  ASSERT_TRUE(json);
  EXPECT_EQ(RawObject(*json)["a"].text(), "2");
}

TEST(RawJsonTest, NullIsAbsentAndHalfASurrogateIsRead) {
  const auto json = RawJson::Parse(R"({"a":null,"b":"x\ud83d"})");
  ASSERT_TRUE(json);
  EXPECT_FALSE(RawObject(*json)["a"]);
  EXPECT_EQ(RawObject(*json).String("b"), "x\xEF\xBF\xBD");
}

}  // namespace
}  // namespace kvgate::dialect::translate
