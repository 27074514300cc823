#include "sdk/src/json_find.h"

#include <gtest/gtest.h>

namespace kvgate::sdk {
namespace {

TEST(FindInJsonTest, StringsComeAsTextAndTheRestAsJson) {
  constexpr std::string_view kJson = R"({"a":[{"b/c":"x\ny"},-1.5,null,{"k":[1, 2]}],"":true})";
  const auto find = [&](const char* pointer) {
    std::string value;
    const auto failed = FindInJson(kJson, pointer, value);
    return failed ? std::string(kvgate_status_name(failed->status)) : value;
  };
  EXPECT_EQ(find("/a/0/b~1c"), "x\ny");
  EXPECT_EQ(find("/a/1"), "-1.5");
  EXPECT_EQ(find("/a/2"), "null");
  EXPECT_EQ(find("/a/3"), "{\"k\":[1,2]}");
  EXPECT_EQ(find("/"), "true");
  EXPECT_EQ(find("/a/9"), "NOT_FOUND");
  EXPECT_EQ(find("/a/x"), "NOT_FOUND");
  EXPECT_EQ(find("/b"), "NOT_FOUND");
  EXPECT_EQ(find("a"), "INVALID_ARGUMENT");
}

TEST(FindInJsonTest, WhatIsNoJsonIsRefused) {
  std::string value;
  EXPECT_EQ(FindInJson("{", "", value)->status, KVGATE_INVALID_ARGUMENT);
  EXPECT_EQ(FindInJson("{\"a\":\"\xff\"}", "/a", value)->status, KVGATE_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace kvgate::sdk
