#include "gateway/session/memory/fact_schema.h"

#include <gtest/gtest.h>

#include <string>

namespace kvgate::session::memory {
namespace {

using transcript::Json;

FactSchema Read(const std::string& properties) {
  return FactSchema::Read(Json::parse(R"({"type":"object","properties":)" + properties + "}"))
      .value();
}

TEST(FactSchemaTest, ValuesAreAsItSays) {
  const FactSchema schema = Read(R"({
      "name": {"type": "string", "minLength": 2, "maxLength": 4},
      "age": {"type": "integer", "minimum": 0, "maximum": 150},
      "color": {"enum": ["red", "blue"]},
      "pets": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
      "home": {"type": "object", "properties": {"city": {"type": "string"}},
               "required": ["city"], "additionalProperties": false},
      "any": {},
      "either": {"type": ["string", "null"]},
      "one": {"const": 1}})");
  struct Case {
    const char* name;
    const char* value;
    bool is_allowed;
  };
  for (const Case& one : {Case{"name", R"("Ann")", true},
                          Case{"name", R"("A")", false},
                          Case{"name", R"("Amara")", false},
                          Case{"name", R"("ÄÖÜß")", true},
                          Case{"name", "5", false},
                          Case{"age", "41", true},
                          Case{"age", "41.0", true},
                          Case{"age", "41.5", false},
                          Case{"age", "-1", false},
                          Case{"age", "1e300", false},
                          Case{"color", R"("red")", true},
                          Case{"color", R"("green")", false},
                          Case{"pets", R"(["a","b"])", true},
                          Case{"pets", R"(["a","b","c"])", false},
                          Case{"pets", "[1]", false},
                          Case{"home", R"({"city":"Lisbon"})", true},
                          Case{"home", "{}", false},
                          Case{"home", R"({"city":"Lisbon","zip":1})", false},
                          Case{"any", R"({"a":[1]})", true},
                          Case{"either", "null", true},
                          Case{"either", "true", false},
                          Case{"one", "1", true},
                          Case{"one", "2", false}}) {
    EXPECT_EQ(schema.Allows(one.name, Json::parse(one.value)), one.is_allowed)
        << one.name << " " << one.value;
  }
  EXPECT_TRUE(schema.Has("any"));
  EXPECT_FALSE(schema.Has("other"));
}

TEST(FactSchemaTest, WhatIsNotCheckedIsRefusedByItsPlace) {
  struct Case {
    const char* schema;
    const char* field;
  };
  for (const Case& one :
       {Case{"5", "schema"}, Case{"{}", "schema.properties"},
        Case{R"({"properties":{}})", "schema.properties"},
        Case{R"({"properties":{"a":{"pattern":"x"}}})", "schema.properties.a.pattern"},
        Case{R"({"properties":{"a":{"type":"text"}}})", "schema.properties.a.type"},
        Case{R"({"properties":{"a":{"items":{"oneOf":[]}}}})", "schema.properties.a.items.oneOf"},
        Case{R"({"properties":{"a":{"minimum":"1"}}})", "schema.properties.a.minimum"},
        Case{R"({"properties":{"a":5}})", "schema.properties.a"},
        Case{R"({"properties":{"":{}}})", "schema.properties."}}) {
    const auto read = FactSchema::Read(Json::parse(one.schema));
    ASSERT_FALSE(read.has_value()) << one.schema;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(read.error().field, one.field);
  }
  Json many = {{"properties", Json::object()}};
  for (int i = 0; i < 65; ++i) many["properties"][std::to_string(i)] = Json::object();
  EXPECT_FALSE(FactSchema::Read(many).has_value());
}

}  // namespace
}  // namespace kvgate::session::memory
