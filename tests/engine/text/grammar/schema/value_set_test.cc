#include "engine/text/grammar/schema/value_set.h"

#include <gtest/gtest.h>

namespace kvgate::grammar::schema {
namespace {

// The set finds a value exactly if a comparison with each member would find it.
TEST(ValueSetTest, FindsWhatIsEqual) {
  const Json values = Json::parse(
      R"([0, 1, -0.0, 1.5, "a", "", null, true, false, [], [1, "a"], {}, {"a": 1, "b": [null]},
          18446744073709551615, 9007199254740993, "1", [[]]])");
  const Json asked = Json::parse(
      R"([0, 0.0, 1.0, 2, 1.5, "a", "b", null, false, [], [1.0, "a"], ["a", 1], {}, {"a": 1},
          {"a": 1, "b": [null]}, 9007199254740993, "1", [[]], [[[]]]])");
  const ValueSet set(values);
  for (const Json& value : asked) {
    const bool is_there = std::find(values.begin(), values.end(), value) != values.end();
    EXPECT_EQ(set.Contains(value), is_there) << value;
  }
  ValueSet grown;
  EXPECT_TRUE(grown.Insert(values[1]));
  EXPECT_FALSE(grown.Insert(asked[2]));  // 1 equals 1.0
}

// An object's members keep their order, and are found by name however many there are.
TEST(ValueSetTest, MembersOfObjectsAreFoundByName) {
  Json object = Json::object();
  for (int i = 0; i < 2'000; ++i) {
    object["n" + std::to_string(i * 7 % 2'000)] = i;
    EXPECT_TRUE(i % 500 != 0 || object.contains("n0"));
  }
  EXPECT_EQ(object.size(), 2'000u);
  EXPECT_EQ(object.begin().key(), "n0");
  EXPECT_EQ(std::next(object.begin()).key(), "n7");
  for (int i = 0; i < 2'000; ++i) EXPECT_EQ(object.at("n" + std::to_string(i * 7 % 2'000)), i);
  EXPECT_FALSE(object.contains("n2000"));
  EXPECT_EQ(object.erase("n7"), 1u);
  EXPECT_FALSE(object.contains("n7"));
  EXPECT_EQ(object.at("n14"), 2);
  const Json copy = object;
  EXPECT_EQ(copy, object);
  EXPECT_EQ(Json::parse(object.dump()), object);
  object["n7"] = "again";
  EXPECT_EQ(std::prev(object.end()).key(), "n7");
}

}  // namespace
}  // namespace kvgate::grammar::schema
