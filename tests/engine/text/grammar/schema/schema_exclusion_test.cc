#include "engine/text/grammar/schema/schema_exclusion.h"

#include <gtest/gtest.h>

namespace kvgate::grammar::schema {
namespace {

// Returns true if no value written for the first schema is valid under the second.
bool First(const std::string& first, const std::string& second, bool alone = true) {
  auto document = SchemaDocument::Parse(
      "{\"oneOf\":[" + first + "," + second + "],\"$defs\":{\"n\":{\"type\":\"null\"}}}", {});
  const Json& root = document->root();
  rules::Budget budget;
  const auto excluded = Excludes(*document,
                                 {.written = **document->Child(root, "oneOf", 0),
                                  .read = **document->Child(root, "oneOf", 1),
                                  .alone = alone},
                                 budget);
  return excluded.value_or(false);
}

TEST(SchemaExclusionTest, TypesAndValuesApart) {
  EXPECT_TRUE(First(R"({"type":"string"})", R"({"type":["null","array"]})"));
  EXPECT_FALSE(First(R"({"type":"integer"})", R"({"type":"number"})"));
  EXPECT_TRUE(First(R"({"enum":[1,"a"]})", R"({"const":"b"})"));
  EXPECT_FALSE(First(R"({"enum":[1,"a"]})", R"({"enum":["a"]})"));
  EXPECT_TRUE(First(R"({"$ref":"#/$defs/n"})", R"({"type":"string"})"));
  EXPECT_TRUE(First(R"({"anyOf":[{"type":"null"},{"const":1}]})", R"({"type":"string"})"));
  EXPECT_FALSE(First(R"({"anyOf":[{"type":"null"},{"const":"x"}]})", R"({"type":"string"})"));
  EXPECT_FALSE(First("{}", R"({"type":"string"})"));
  EXPECT_TRUE(First("{}", "false"));
}

TEST(SchemaExclusionTest, PropertiesTellObjectsApart) {
  const std::string a = R"({"type":"object","properties":{"a":{"const":1}},"required":["a"]})";
  const std::string ab =
      R"({"type":"object","properties":{"a":{"const":1},"b":{}},"required":["a","b"]})";
  EXPECT_TRUE(First(a, ab));   // the first schema's values never have b
  EXPECT_FALSE(First(ab, a));  // but a value with b is valid under the other, too
  EXPECT_FALSE(First(a, ab, false));
  const std::string a2 = R"({"type":"object","properties":{"a":{"const":2}},"required":["a"]})";
  EXPECT_TRUE(First(a, a2));
  EXPECT_TRUE(First(ab, R"({"type":"object","properties":{"a":{}},"additionalProperties":false})"));
}

}  // namespace
}  // namespace kvgate::grammar::schema
