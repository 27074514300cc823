// RandomSchema writes random schemas from all the keywords that can be combined.
#pragma once

#include <random>
#include <string>
#include <utility>

#include "engine/text/grammar/schema/schema_document.h"

namespace kvgate::grammar {

class RandomSchema {
 public:
  explicit RandomSchema(uint64_t seed) : random_(seed) {}

  schema::Json Make() {
    schema::Json schema = Any(0);
    if (num_refs_ > 0) {
      // This recursion can end: the list holds itself or null.
      schema["$defs"]["tree"] = {
          {"type", "object"},
          {"properties",
           {{"value", Any(3)},
            {"next", {{"anyOf", {{{"type", "null"}}, {{"$ref", "#/$defs/tree"}}}}}}}},
          {"required", {"next"}},
          {"additionalProperties", false}};
    }
    return schema;
  }

 private:
  size_t Below(size_t bound) { return random_() % bound; }
  bool Chance(size_t one_in) { return Below(one_in) == 0; }

  schema::Json Any(int depth) {
    const size_t kind = Below(depth < 3 ? 12 : 7);
    switch (kind) {
      case 0:
        return String();
      case 1:
        return Number("integer");
      case 2:
        return Number("number");
      case 3:
        return {{"enum", {"x", 1, -2.5, nullptr, true, "é\"\\\n", {{"k", {1, 2}}}}}};
      case 4:
        return {{"const", Chance(2) ? schema::Json("only \"this\"") : schema::Json(3)}};
      case 5:
        return {{"type", schema::Json::array({"null", "boolean"})}};
      case 6:
        return Pattern();
      case 7:
        return Array(depth);
      case 8:
      case 9:
        return Object(depth);
      case 10: {
        schema::Json schema;
        for (size_t i = 1 + Below(3); i > 0; --i) schema["anyOf"].push_back(Any(depth + 1));
        return schema;
      }
      default:
        if (Chance(2)) {
          return {{"allOf", {{{"type", "integer"}, {"minimum", -5}}, {{"maximum", 70}}}},
                  {"multipleOf", 1 + Below(5)}};
        }
        ++num_refs_;
        return {{"$ref", "#/$defs/tree"}};
    }
  }

  schema::Json String() {
    schema::Json schema = {{"type", "string"}};
    const size_t min = Below(8);
    if (Chance(2)) schema["minLength"] = min;
    if (Chance(2)) schema["maxLength"] = min + Below(40);
    return schema;
  }

  schema::Json Pattern() {
    static const char* const kPatterns[] = {"^[A-Z]{2}-[0-9]{3,5}$", "^(red|green|blue)$",
                                            "^[^@ ]+@[a-z]+\\.com$", "[0-9]", "^\\w+(\\s\\w+)*$"};
    schema::Json schema = {{"type", "string"}, {"pattern", kPatterns[Below(5)]}};
    if (Chance(4)) schema["allOf"] = {{{"pattern", "[a-z0-9]$"}}};
    if (Chance(4)) schema["not"] = {{"enum", {"red", "A1", "0"}}};
    if (Chance(3)) schema["maxLength"] = 9 + Below(6);
    return schema;
  }

  schema::Json Number(const char* type) {
    schema::Json schema = {{"type", type}};
    const bool whole = std::string(type) == "integer";
    const auto bound = [&](int64_t value) -> schema::Json {
      return whole ? schema::Json(value) : schema::Json(static_cast<double>(value) / 8);
    };
    const auto low = static_cast<int64_t>(Below(2000)) - 1000;
    if (Chance(2)) schema[Chance(2) ? "minimum" : "exclusiveMinimum"] = bound(low);
    if (Chance(2)) {
      schema[Chance(2) ? "maximum" : "exclusiveMaximum"] =
          bound(low + 20 + static_cast<int64_t>(Below(3000)));
    }
    if (whole && Chance(4)) schema["multipleOf"] = 2 + Below(8);
    return schema;
  }

  schema::Json Array(int depth) {
    schema::Json schema = {{"type", "array"}};
    if (Chance(3)) {
      for (size_t i = 1 + Below(3); i > 0; --i) schema["prefixItems"].push_back(Any(depth + 1));
      schema["items"] = Chance(2) ? schema::Json(false) : Any(depth + 1);
    } else {
      schema["items"] = Any(depth + 1);
      const size_t min = Below(3);
      if (Chance(2)) schema["minItems"] = min;
      if (Chance(2)) schema["maxItems"] = min + Below(4);
      if (min < 2 && Chance(3)) schema["uniqueItems"] = true;
    }
    return schema;
  }

  schema::Json Object(int depth) {
    static const char* const kNames[] = {"id", "name", "é ü", "a\"b", "tags", "x", "nested"};
    schema::Json schema = {{"type", "object"}, {"properties", schema::Json::object()}};
    schema::Json required = schema::Json::array();
    for (size_t i = Below(4); i > 0; --i) {
      const char* const name = kNames[Below(7)];
      if (schema["properties"].contains(name)) continue;
      schema["properties"][name] = Any(depth + 1);
      if (Chance(2)) required.push_back(name);
    }
    if (Chance(2)) schema["required"] = required;
    if (Chance(3))
      schema["additionalProperties"] = Chance(2) ? schema::Json(false) : Any(depth + 1);
    if (Chance(6)) schema["patternProperties"] = {{"^[a-f]", Any(depth + 1)}};
    if (Chance(6)) schema["propertyNames"] = {{"pattern", "^[^x]*$"}, {"maxLength", 9}};
    if (Chance(5)) schema["maxProperties"] = schema["properties"].size() + 1;
    return schema;
  }

  std::mt19937_64 random_;
  int num_refs_ = 0;
};

}  // namespace kvgate::grammar
