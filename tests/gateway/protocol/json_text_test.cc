#include "gateway/protocol/json_text.h"

#include <gtest/gtest.h>

namespace kvgate::protocol {
namespace {

TEST(JsonTextTest, OnlyObjectsAreParsed) {
  const auto object = ParseObject(R"({"a": 1})");
  ASSERT_TRUE(object);
  EXPECT_EQ(std::get<jinja::Data::Dict>(object->value())[0].first, "a");
  for (const char* other : {"", "[1]", "{\"a\":", "1"}) EXPECT_FALSE(ParseObject(other)) << other;
  EXPECT_FALSE(ParseObject(std::string(5000, '[')));
}

TEST(JsonTextTest, ArgumentsAreAlwaysAnObject) {
  EXPECT_EQ(AsObject("{ \"a\" : 1 }"), "{ \"a\" : 1 }");
  EXPECT_EQ(AsObject("  "), "{}");
  EXPECT_EQ(AsObject("[1]"), R"({"arguments":[1]})");
  EXPECT_EQ(AsObject("{\"a\": \"x"), R"({"arguments":"{\"a\": \"x"})");
}

TEST(JsonTextTest, SpellingsOfOneValueAreOneText) {
  EXPECT_EQ(CanonicalJson(R"({ "b": [1, {"d": 2, "c": "\u00e9"}], "a": null })"),
            CanonicalJson(R"({"a":null,"b":[1,{"c":"é","d":2}]})"));
  EXPECT_NE(CanonicalJson("{\"a\":1}"), CanonicalJson("{\"a\":2}"));
  EXPECT_EQ(CanonicalJson("no json"), "no json");
}

}  // namespace
}  // namespace kvgate::protocol
