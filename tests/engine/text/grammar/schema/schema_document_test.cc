#include "engine/text/grammar/schema/schema_document.h"

#include <gtest/gtest.h>

namespace kvgate::grammar::schema {
namespace {

TEST(SchemaDocumentTest, PartsKnowTheirPlace) {
  auto document = SchemaDocument::Parse(
      R"({"properties":{"a":{"anyOf":[{},{"$ref":"#/$defs/b%20c/items"}]}},
          "$defs":{"b c":{"items":{"type":"null"}}}})",
      {});
  ASSERT_TRUE(document.has_value());
  const Json& root = document->root();
  EXPECT_EQ(document->PathOf(root), "");
  const Json* const a = *document->Child(root, "properties", "a");
  EXPECT_EQ(document->PathOf(*a), "properties.a");
  const Json* const second = *document->Child(*a, "anyOf", 1);
  EXPECT_EQ(document->PathOf(*second), "properties.a.anyOf[1]");
  const Json* const target = *document->Resolve(*second);
  EXPECT_EQ(document->PathOf(*target), "$defs.b c.items");
  EXPECT_EQ(NamedTypes(*target), unsigned{kNull});
  EXPECT_EQ(document->ErrorAt(*target, "type", ErrorCode::kUnsupported, "is odd").field,
            "$defs.b c.items.type");
}

TEST(SchemaDocumentTest, TypesFollowFromNamesAndKeywords) {
  EXPECT_EQ(NamedTypes(Json::parse(R"({"type":["string","number"],"nullable":true})")),
            kString | kInteger | kFraction | kNull);
  EXPECT_FALSE(NamedTypes(Json::parse("{}")));
  EXPECT_EQ(TypesOfKeywords(Json::parse(R"({"minItems":1,"maxLength":2,"title":"x"})")),
            kArray | kString);
  EXPECT_EQ(TypeOf(Json(2.0)), unsigned{kInteger});
  EXPECT_EQ(TypeOf(Json(1e300)), unsigned{kInteger});
  EXPECT_EQ(TypeOf(Json(2.5)), unsigned{kFraction});
}

TEST(SchemaDocumentTest, OfTwoEqualNamesTheLastCounts) {
  const auto document = SchemaDocument::Parse(R"({"type":"null","type":"string"})", {});
  EXPECT_EQ(NamedTypes(document->root()), unsigned{kString});
}

}  // namespace
}  // namespace kvgate::grammar::schema
