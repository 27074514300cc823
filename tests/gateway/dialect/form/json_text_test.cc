#include "gateway/dialect/form/json_text.h"

#include <gtest/gtest.h>

namespace kvgate::dialect::form {
namespace {

TEST(JsonTextTest, OnlyObjectsAreParsed) {
  const auto object = ParseObject(R"({"a": 1})");
  ASSERT_TRUE(object);
  EXPECT_EQ(std::get<jinja::value::Data::Dict>(object->value())[0].first, "a");
  for (const char* other : {"", "[1]", "{\"a\":", "1"}) EXPECT_FALSE(ParseObject(other)) << other;
  EXPECT_FALSE(ParseObject(std::string(5000, '[')));
}

TEST(JsonTextTest, ArgumentsAreAlwaysAnObject) {
  EXPECT_EQ(AsObject("{ \"a\" : 1 }"), "{ \"a\" : 1 }");
  EXPECT_EQ(AsObject("  "), "{}");
  EXPECT_EQ(AsObject("[1]"), R"({"arguments":[1]})");
  EXPECT_EQ(AsObject("{\"a\": \"x"), R"({"arguments":"{\"a\": \"x"})");
}

TEST(JsonTextTest, NumbersKeepTheirSpellingAndTextsTheirMeaning) {
  const auto object =
      ParseObject(R"( {"i":-7,"big":123456789012345678901234567890,"f":1.10,"e":1E+5,"z":-0,)"
                  R"("s":"\u00e9\ud83d\ude00\n\"","deep":[true,false,null,{"":[]}]} )");
  ASSERT_TRUE(object);
  const auto& fields = std::get<jinja::value::Data::Dict>(object->value());
  const auto digits = [&](size_t i) {
    return std::get<jinja::value::Data::BigInteger>(fields[i].second.value()).digits;
  };
  EXPECT_EQ(std::get<int64_t>(fields[0].second.value()), -7);
  EXPECT_EQ(digits(1), "123456789012345678901234567890");
  EXPECT_EQ(digits(2), "1.10");
  EXPECT_EQ(digits(3), "1E+5");
  EXPECT_EQ(digits(4), "-0");
  EXPECT_EQ(std::get<std::string>(fields[5].second.value()), "é😀\n\"");
  EXPECT_EQ(std::get<jinja::value::Data::List>(fields[6].second.value()).size(), 4u);
  EXPECT_EQ(AsObject("{\"n\":1e999}"), "{\"n\":1e999}");
}

TEST(JsonTextTest, ANumberIsComparedHoweverItIsSpelled) {
  for (const std::string_view above : {"301", "1e9", "300.5", "99999999999999999999", "1E400"}) {
    EXPECT_TRUE(IsNumberAbove(above, 300)) << above;
  }
  for (const std::string_view below : {"300", "-1e9", "3e-400", "null", "\"many\"", "", "[]"}) {
    EXPECT_FALSE(IsNumberAbove(below, 300)) << below;
  }
}

}  // namespace
}  // namespace kvgate::dialect::form
