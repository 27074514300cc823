#include "engine/text/grammar/schema/json_schema.h"

#include <gtest/gtest.h>

#include "tests/engine/text/grammar/generated_schemas.h"
#include "tests/engine/text/grammar/grammar_fixture.h"
#include "tests/engine/text/grammar/random_schema.h"
#include "tests/engine/text/grammar/schema_validator.h"

namespace kvgate::grammar::schema {
namespace {

void ExpectTakes(std::string_view schema, std::initializer_list<std::string> good,
                 std::initializer_list<std::string> bad) {
  const mask::Automaton automaton = FromSchema(schema);
  for (const std::string& text : good) EXPECT_TRUE(Takes(automaton, text)) << schema << text;
  for (const std::string& text : bad) EXPECT_FALSE(Takes(automaton, text)) << schema << text;
}

TEST(JsonSchemaTest, ObjectsHaveTheirPropertiesInTheSchemasOrder) {
  ExpectTakes(R"({"type":"object","properties":{"b":{"type":"null"},"a":{"type":"boolean"},
                  "c":{"const":1}},"required":["a"]})",
              {R"({"b": null, "a": true, "c": 1})", R"({"a":false})", R"({"b":null,"a":true})",
               R"({"a":true,"c":1})"},
              {"{}", R"({"b":null})", R"({"a":true,"b":null})", R"({"a":true,})",
               R"({"a":true,"x":1})", R"({ "a":true})"});
  ExpectTakes(R"({"properties":{"a":{"const":1}},"additionalProperties":{"type":"string"}})",
              {"{}", R"({"a":1})", R"({"a":1,"b":"x"})", R"({"b":"x","c":""})"},
              {R"({"a":"x"})", R"({"b":1})", R"({"b":"x","a":1})"});
  ExpectTakes(R"({"type":"object"})", {"{}", R"({"a":[1,{}]})"}, {"[]", "1"});
  ExpectTakes(R"({"type":"object","required":["x"]})", {R"({"x":[]})"}, {"{}"});
  ExpectTakes(R"({"type":"object","minProperties":1,"maxProperties":2})",
              {R"({"a":1})", R"({"a":1,"b":2})"}, {"{}", R"({"a":1,"b":2,"c":3})"});
}

TEST(JsonSchemaTest, ArraysHaveTheirItems) {
  ExpectTakes(R"({"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":3})",
              {"[true]", "[true, false,true]"}, {"[]", "[true,true,true,true]", "[1]"});
  ExpectTakes(R"({"prefixItems":[{"const":1},{"const":2}],"items":false,"minItems":1})",
              {"[1]", "[1,2]"}, {"[]", "[2]", "[1,2,3]", "[1,2,1]"});
  ExpectTakes(R"({"prefixItems":[{"const":1}],"items":{"const":2},"minItems":2,"maxItems":3})",
              {"[1,2]", "[1,2,2]"}, {"[1]", "[1,2,2,2]"});
  ExpectTakes(R"({"items":[{"const":1}],"additionalItems":{"const":2}})", {"[]", "[1,2,2]"},
              {"[2]"});
  ExpectTakes(R"({"type":"array","items":false})", {"[]"}, {"[1]"});
}

TEST(JsonSchemaTest, SchemasThatAllHoldAreOne) {
  ExpectTakes(R"({"allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},
                           {"properties":{"a":{"minimum":5},"b":{"const":0}},"type":"object"}]})",
              {R"({"a":5})", R"({"a":7,"b":0})"}, {R"({"a":4})", "{}"});
  ExpectTakes(R"({"type":"object","properties":{"k":{"type":"string"}},"required":["k"],
                  "anyOf":[{"properties":{"k":{"const":"x"},"n":{"const":1}},"required":["n"]},
                           {"properties":{"k":{"const":"y"}}}]})",
              {R"({"k":"x","n":1})", R"({"k":"y"})"}, {R"({"k":"x"})", R"({"k":"z"})"});
  ExpectTakes(R"({"enum":["a","bb",3,null],"type":"string","minLength":2})", {R"("bb")"},
              {R"("a")", "3", "null"});
  ExpectTakes(R"({"$ref":"#/$defs/a~1b","$defs":{"a/b":{"const":1}}})", {"1"}, {"2"});
  ExpectTakes(R"({"type":"string","nullable":true,"maxLength":1})", {"null", R"("x")"},
              {R"("xx")"});
  ExpectTakes(R"({"type":["integer","null"],"exclusiveMinimum":1.5,"maximum":3})",
              {"2", "3", "null"}, {"1", "4", "2.5"});
  ExpectTakes(R"({"type":"number","multipleOf":5,"minimum":0,"maximum":10})", {"0", "5", "10"},
              {"1", "-5", "5.0"});
}

TEST(JsonSchemaTest, PropertiesAreCounted) {
  ExpectTakes(R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},
                  "required":["b"],"minProperties":2,"maxProperties":2})",
              {R"({"a":1,"b":2})", R"({"b":2,"c":3})"},
              {R"({"b":2})", R"({"a":1,"b":2,"c":3})", R"({"a":1,"c":3})"});
  ExpectTakes(R"({"type":"object","additionalProperties":{"const":1},"minProperties":1,
                  "maxProperties":2})",
              {R"({"x":1})", R"({"x":1,"y":1})"}, {"{}", R"({"x":1,"y":1,"z":1})"});
}

TEST(JsonSchemaTest, NamesOfPropertiesHavePatterns) {
  ExpectTakes(R"({"type":"object","propertyNames":{"pattern":"^[a-c]+$","maxLength":2},
                  "additionalProperties":{"const":1}})",
              {"{}", R"({"ab":1})", R"({"a":1,"c":1})"}, {R"({"abc":1})", R"({"d":1})"});
  ExpectTakes(R"({"type":"object","propertyNames":{"enum":["x","y"]},
                  "additionalProperties":{"const":1}})",
              {R"({"x":1,"y":1})"}, {R"({"z":1})"});
  ExpectTakes(R"({"type":"object","patternProperties":{"^n":{"type":"null"},"s$":{"const":1}},
                  "properties":{"node":{"const":null}},"additionalProperties":false})",
              {R"({"node":null,"no":null})", R"({"is":1})"},
              {R"({"x":1})", R"({"ns":1})", R"({"node":1})", R"({"is":null})"});
}

TEST(JsonSchemaTest, ItemsThatAreNamedAreDistinct) {
  ExpectTakes(R"({"type":"array","items":{"enum":["a","b","c"]},"uniqueItems":true,"minItems":1})",
              {R"(["c"])", R"(["b","a"])", R"(["c","a","b"])"}, {"[]", R"(["a","a"])"});
  ExpectTakes(R"({"type":"array","items":{"enum":[1,2,3,4,5,6,7,8,9]},"uniqueItems":true,
                  "maxItems":2})",
              {"[]", "[9]", "[1,9]"}, {"[1,1]", "[1,2,3]"});
  ExpectTakes(R"({"type":"array","items":{"type":"string"},"uniqueItems":true})",
              {"[]", R"(["a"])"}, {R"(["a","a"])"});
}

TEST(JsonSchemaTest, WhatIsExcludedIsNotWritten) {
  ExpectTakes(R"({"not":{"type":["string","object"]}})", {"1", "null", "[]"}, {R"("x")", "{}"});
  ExpectTakes(R"({"type":"string","not":{"enum":["a","b"]},"maxLength":1})", {R"("c")", R"("")"},
              {R"("a")", R"("b")"});
  ExpectTakes(R"({"type":"string","not":{"pattern":"x"},"pattern":"y"})", {R"("ay")"},
              {R"("xy")", R"("a")"});
  ExpectTakes(R"({"anyOf":[{"not":{}},{"const":1}]})", {"1"}, {"2"});
  ExpectTakes(R"({"enum":[1,2,3],"not":{"const":2}})", {"1", "3"}, {"2"});
}

TEST(JsonSchemaTest, StringsMeetAllThatIsSaidOfThem) {
  ExpectTakes(R"({"allOf":[{"type":"string","pattern":"^a"},{"pattern":"b$"},{"minLength":3}]})",
              {R"("acb")"}, {R"("ab")", R"("abc")", R"("cab")"});
  ExpectTakes(R"({"enum":["ab","cd","a"],"pattern":"^a"})", {R"("ab")", R"("a")"}, {R"("cd")"});
  ExpectTakes(R"({"type":"string","pattern":"^[a-z]+$","maxLength":100000})",
              {"\"" + std::string(3000, 'x') + "\""}, {R"("")"});
}

TEST(JsonSchemaTest, RecursionIsARuleOfItsOwn) {
  ExpectTakes(R"({"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#"}}},
                  "required":["children"]})",
              {R"({"children":[{"children":[]}, {"children":[{"children":[]}]}]})"},
              {R"({"children":[1]})"});
}

TEST(JsonSchemaTest, OneOfIsTakenWhereAlternativesRuleEachOtherOut) {
  ExpectTakes(R"({"oneOf":[{"type":"string"},{"type":"null"}]})", {R"("x")", "null"}, {"1"});
  ExpectTakes(R"({"oneOf":[{"type":"object","properties":{"kind":{"const":"a"},"x":{}},
                            "required":["kind","x"]},
                           {"$ref":"#/$defs/b"}],
                  "$defs":{"b":{"type":"object","properties":{"kind":{"enum":["b","c"]}},
                                "required":["kind"]}}})",
              {R"({"kind":"a","x":1})", R"({"kind":"c"})"}, {R"({"kind":"a"})"});
  EXPECT_NE(SchemaError(R"({"properties":{"v":{"oneOf":[{"type":"number"},{"type":"integer"}]}}})")
                .find("properties.v.oneOf: 'oneOf' has alternatives 0 and 1"),
            std::string::npos);
}

TEST(JsonSchemaTest, WhatIsNotSupportedIsNamedWithItsPath) {
  const auto expect = [](std::string_view schema, std::string_view start) {
    const std::string error = SchemaError(schema);
    EXPECT_TRUE(error.starts_with(start)) << schema << " -> " << error;
  };
  expect(R"({"properties":{"x":{"foo":1}}})", "properties.x.foo: 'foo' is not a keyword");
  expect(R"({"type":"array","uniqueItems":true,"minItems":2})",
         "uniqueItems: 'uniqueItems' is only supported");
  expect(R"({"anyOf":[{"not":{"required":["a"]}}]})", "anyOf[0].not:");
  expect(R"({"if":{}})", "if: 'if' is not a keyword");
  expect(R"({"type":"object","unevaluatedProperties":false})", "unevaluatedProperties:");
  expect(R"({"type":"frog"})", "type: 'type' must be the name");
  expect(R"j({"items":{"type":"string","pattern":"(?=x)"},"type":"array"})j", "items.pattern:");
  expect(R"({"type":"string","format":"color"})", "format: 'format' is 'color'");
  expect(R"({"$ref":"http://x/y"})", "$ref: '$ref' points outside");
  expect(R"({"$ref":"#/$defs/x"})", "$ref: '$ref' points to nothing");
  expect(R"({"minLength":-1})", "minLength: 'minLength' must be");
  expect(R"({"properties":{"a":1}})", "properties: 'properties' must be an object of schemas");
  expect(R"({"type":"number","multipleOf":0.3})", "multipleOf:");
  expect(R"({"type":"object","minProperties":2})", "minProperties:");
  expect(R"({"type":"string","pattern":"(a|b)*a(a|b){20}"})", "pattern:");
  expect(R"({"type":"string","pattern":"^(x{1000}){1000}$"})", "pattern:");
  expect(R"({"type":"integer","minimum":3,"maximum":2})", ": no value");
  expect(R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})", ": no value");
  expect("[]", ": a schema must be");
  expect("{", ": the schema is not JSON");
  expect("false", ": no value");
  expect(std::string(300'000, ' '), ": the schema has 300000 bytes");
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += R"({"items":)";
  expect(deep + "{}" + std::string(100, '}'), ": the schema is nested deeper");
  EXPECT_EQ(SchemaError(R"({"title":"t","description":"d","default":1,"x-note":{},"$id":"i"})"),
            "");
}

// Writes a random text under the mask, as an engine with random weights would.
std::string RandomText(mask::Matcher& matcher, const tokenizer::Tokenizer& tokenizer,
                       int num_tokens, std::mt19937_64& random) {
  std::string text;
  std::vector<uint64_t> mask((static_cast<size_t>(tokenizer.vocab_size()) + 63) / 64);
  for (int left = num_tokens; left > 0 && !matcher.IsComplete(); --left) {
    if (!matcher.FillMask(mask, left)) return "too much work";
    const std::vector<TokenId> tokens = TokensIn(mask);
    if (tokens.empty()) return text + " <nothing left>";
    const TokenId token = tokens[random() % tokens.size()];
    if (!matcher.AcceptToken(token)) return text + " <not accepted>";
    if (tokenizer.is_end_of_generation(token)) break;
    text += tokenizer.TokenBytes(token);
  }
  return text;
}

// zod, pydantic and similar generators write such schemas.
TEST(JsonSchemaTest, SchemasOfCommonGeneratorsAreTaken) {
  const auto tokenizer = JsonTokenizer();
  Compiler compiler(*tokenizer, {});
  mask::MatcherPool pool;
  std::mt19937_64 random(9);
  for (const char* const schema : kGeneratedSchemas) {
    ASSERT_EQ(SchemaError(schema), "") << schema;
    const auto compiled = compiler.Compile({.kind = SourceKind::kJsonSchema, .text = schema});
    ASSERT_TRUE(compiled.has_value());
    const auto matcher = pool.Start(*compiled);
    const PlainJson value =
        PlainJson::parse(RandomText(*matcher, *tokenizer, 2000, random), nullptr, false);
    EXPECT_TRUE(value.is_object()) << schema;
  }
}

TEST(JsonSchemaTest, RandomTextsOfRandomSchemasAreValid) {
  const auto tokenizer = JsonTokenizer();
  Compiler compiler(*tokenizer, {});
  mask::MatcherPool pool;
  std::mt19937_64 random(9);
  int num_schemas = 0;
  for (uint64_t seed = 0; seed < 800; ++seed) {
    const std::string schema = RandomSchema(seed).Make().dump();
    const auto compiled = compiler.Compile({.kind = SourceKind::kJsonSchema, .text = schema});
    if (!compiled) {
      ASSERT_NE(compiled.error().detail.find("no value"), std::string::npos)
          << schema << compiled.error().ToString();
      continue;
    }
    ++num_schemas;
    const SchemaValidator validator(PlainJson::parse(schema));
    for (const int num_tokens : {400, 120}) {
      const auto matcher = pool.Start(*compiled);
      const std::string text = RandomText(*matcher, *tokenizer, num_tokens, random);
      const PlainJson value = PlainJson::parse(text, nullptr, false);
      if (num_tokens < 400 && value.is_discarded()) continue;  // the value needs more tokens
      ASSERT_FALSE(value.is_discarded()) << schema << "\n" << text;
      ASSERT_EQ(validator.Check(value), "") << schema << "\n" << text;
    }
  }
  EXPECT_GT(num_schemas, 600);
}

}  // namespace
}  // namespace kvgate::grammar::schema
