#include "gateway/dialect/gemini/gemini_schema.h"

#include <gtest/gtest.h>

#include <string>

namespace kvgate::dialect::gemini {
namespace {

using translate::RawJson;

std::string Made(const std::string& schema) {
  const auto made = JsonSchemaOf(*RawJson::Parse(schema), "s");
  return made ? *made : made.error().field;
}

TEST(GeminiSchemaTest, TypesAreInLowerCaseAndMayBeNull) {
  EXPECT_EQ(Made(R"({"type":"STRING"})"), R"({"type":"string"})");
  EXPECT_EQ(Made(R"({"type":"INTEGER","nullable":true})"), R"({"type":["integer","null"]})");
  EXPECT_EQ(Made(R"({"type":["STRING","NULL"]})"), R"({"type":["string","null"]})");
  EXPECT_EQ(Made(R"({"type":"TYPE_UNSPECIFIED","enum":["a"]})"), R"({"enum":["a"]})");
  EXPECT_EQ(Made(R"({"type":"object"})"), R"({"type":"object"})");
}

TEST(GeminiSchemaTest, SchemasInSchemas) {
  EXPECT_EQ(Made(R"({"type":"OBJECT","properties":{"type":{"type":"ARRAY","items":
                {"type":"NUMBER"},"minItems":"2"}},"propertyOrdering":["type"],
                "required":["type"],"any_of":[{"type":"BOOLEAN"}]})"),
            R"({"type":"object","properties":{"type":{"type":"array","items":{"type":"number"},)"
            R"("minItems":2}},"required":["type"],"anyOf":[{"type":"boolean"}]})");
}

TEST(GeminiSchemaTest, WrongOnesAreNamed) {
  EXPECT_EQ(Made(R"({"type":"TEXT"})"), "s.type");
  EXPECT_EQ(Made(R"({"properties":{"a":{"type":7}}})"), "s.properties.a.type");
  EXPECT_EQ(Made(R"({"items":[1],"minItems":"many"})"), "s.minItems");
  EXPECT_EQ(Made(R"({"anyOf":{"type":"STRING"}})"), "s.anyOf");
  EXPECT_EQ(Made("[]"), "s");
}

}  // namespace
}  // namespace kvgate::dialect::gemini
