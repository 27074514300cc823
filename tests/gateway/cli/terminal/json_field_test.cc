#include "gateway/cli/terminal/json_field.h"

#include <gtest/gtest.h>

namespace kvgate::cli::terminal {
namespace {

using Json = nlohmann::json;

TEST(JsonFieldTest, WhatIsThereIsFound) {
  const Json object = {{"n", 7}, {"x", 2.5}, {"t", "a"}, {"o", {{"m", 1}}}};
  EXPECT_EQ(CountOf(object, "n"), 7);
  EXPECT_EQ(CountOf(object, "x"), 2);
  EXPECT_EQ(TextOf(object, "t"), "a");
  EXPECT_EQ(CountOf(FieldOf(object, "o"), "m"), 1);
}

TEST(JsonFieldTest, WhatIsMissingOrOfAnotherKindIsNothing) {
  for (const char* text : {"{}", "[]", "null", "7", R"({"f": null})", R"({"f": [1]})"}) {
    const Json json = Json::parse(text);
    EXPECT_EQ(CountOf(json, "f"), 0) << text;
    EXPECT_EQ(CountOf(json, "f", -1), -1) << text;
    EXPECT_EQ(TextOf(json, "f"), "") << text;
  }
  EXPECT_TRUE(FieldOf(Json::parse("[]"), "f").is_null());
}

}  // namespace
}  // namespace kvgate::cli::terminal
