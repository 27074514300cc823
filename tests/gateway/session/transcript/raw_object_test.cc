#include "gateway/session/transcript/raw_object.h"

#include <gtest/gtest.h>

namespace kvgate::session::transcript {
namespace {

TEST(RawObjectTest, MembersKeepTheBytesInWhichTheyAreWritten) {
  const auto object = RawObject::Read(R"({ "a" : [1.0, 1e2] , "b":null, "c":"\u00e4x", "n":-7 })");
  ASSERT_TRUE(object);
  EXPECT_EQ(object->At("a"), "[1.0, 1e2]");
  EXPECT_EQ(object->At("b"), "");
  EXPECT_EQ(object->At("none"), "");
  EXPECT_EQ(object->StringAt("c"), "äx");
  EXPECT_EQ(object->StringAt("n"), "");
  EXPECT_EQ(object->IntegerAt("n"), -7);
  EXPECT_EQ(object->IntegerAt("a"), 0);
}

TEST(RawObjectTest, WhatIsNoObjectIsNotRead) {
  for (const char* text : {"", "[]", "1", "{", R"({"a":)", R"({"a" 1})"}) {
    EXPECT_FALSE(RawObject::Read(text)) << text;
  }
}

}  // namespace
}  // namespace kvgate::session::transcript
