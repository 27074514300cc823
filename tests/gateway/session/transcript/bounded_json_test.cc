#include "gateway/session/transcript/bounded_json.h"

#include <gtest/gtest.h>

#include <string>

namespace kvgate::session::transcript {
namespace {

std::string Nested(int depth) {
  return std::string(static_cast<size_t>(depth), '[') +
         std::string(static_cast<size_t>(depth), ']');
}

TEST(BoundedJsonTest, WhatIsNestedTooDeeplyIsNotParsed) {
  EXPECT_TRUE(ParseJson(Nested(kJsonDepthMax)));
  EXPECT_FALSE(ParseJson(Nested(kJsonDepthMax + 1)));
  EXPECT_FALSE(ParseJson(Nested(1'000'000)));
  EXPECT_TRUE(IsTooDeep(Nested(kJsonDepthMax + 1)));
}

TEST(BoundedJsonTest, BracketsInStringsDoNotNest) {
  const std::string text = "\"" + std::string(1000, '[') + R"(\"[)" + std::string(1000, '{') + "\"";
  EXPECT_FALSE(IsTooDeep(text));
  EXPECT_TRUE(ParseJson(text));
}

TEST(BoundedJsonTest, MembersOfOtherKindsAreEmpty) {
  const auto json = ParseJson(R"({"b":1,"a":"x","n":2.5})");
  ASSERT_TRUE(json);
  EXPECT_EQ(StringAt(*json, "a"), "x");
  EXPECT_EQ(StringAt(*json, "b"), "");
  EXPECT_EQ(IntegerAt(*json, "b"), 1);
  EXPECT_EQ(IntegerAt(*json, "n"), 0);
  EXPECT_TRUE(MemberOf(*json, "none").is_null());
  EXPECT_TRUE(MemberOf(MemberOf(*json, "a"), "deeper").is_null());
  EXPECT_EQ(Dump(*json), R"({"b":1,"a":"x","n":2.5})");
}

}  // namespace
}  // namespace kvgate::session::transcript
