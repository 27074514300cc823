#include "engine/text/tokenizer/split/json_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kvgate::tokenizer::split {
namespace {

using ::testing::HasSubstr;

TEST(JsonNodeTest, MembersAndElementsKnowTheirPath) {
  const nlohmann::json json = {{"a", {{"b", {1, "x"}}}}, {"yes", true}};
  const JsonNode root(json, "");
  const auto elements = root.At("a").At("b").Elements();
  ASSERT_TRUE(elements);
  EXPECT_EQ((*elements)[1].path(), "a.b[1]");
  EXPECT_EQ(*(*elements)[0].Integer(), 1);
  EXPECT_EQ(*(*elements)[1].String(), "x");
  EXPECT_EQ(*root.Bool("yes", false), true);
  EXPECT_EQ(*root.Bool("no", true), true);
  EXPECT_EQ(*root.String("name", "y"), "y");
  EXPECT_TRUE(root.At("a").At("q").At("r").is_null());
}

TEST(JsonNodeTest, AWrongKindIsNamedByItsPath) {
  const nlohmann::json json = {{"a", {{"b", 1.5}}}};
  const JsonNode node = JsonNode(json, "").At("a").At("b");
  for (const Error& error : {node.String().error(), node.Integer().error(), node.Bool().error(),
                             node.Elements().error(), node.Bad("is bad")}) {
    EXPECT_EQ(error.code, ErrorCode::kDataLoss);
    EXPECT_THAT(error.detail, HasSubstr("tokenizer.json: a.b is"));
  }
  EXPECT_EQ(node.Unsupported("is not supported").code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace kvgate::tokenizer::split
