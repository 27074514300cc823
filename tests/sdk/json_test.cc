// The little JSON of the C++ interface: what is written, and what is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kvgate/json.h>

namespace kvgate::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Texts(const std::vector<Json>& items) {
  std::vector<std::string> texts;
  for (const Json& item : items) texts.push_back(item.String(""));
  return texts;
}

TEST(JsonTest, AQuotedTextIsFoundAsItWas) {
  const std::string text = "say \"hi\"\\ \n\r\t\x01 Zürich";
  EXPECT_EQ(Json(Quote(text)).String(""), text);
  EXPECT_EQ(Json("{\"a\":{\"b\":[1,true,2.5]}}").Int("/a/b/0"), 1);
  EXPECT_TRUE(Json("{\"a\":{\"b\":[1,true,2.5]}}").Bool("/a/b/1"));
  EXPECT_EQ(Json("{\"a\":{\"b\":[1,true,2.5]}}").Double("/a/b/2"), 2.5);
  EXPECT_EQ(Json("{\"a\":1}").Int("/b", 7), 7);
}

TEST(JsonTest, AListIsTakenApart) {
  const Json json(R"({"data":[{"id":"a","in":[1,2]},{"id":"b,]}\"","in":[]}, 3 ,"x, y",null]})");
  const std::vector<Json> items = json.Items("/data");
  ASSERT_EQ(items.size(), 5u);
  EXPECT_EQ(items[0].String("/id"), "a");
  EXPECT_THAT(Texts(items[0].Items("/in")), ElementsAre("1", "2"));
  EXPECT_EQ(items[1].String("/id"), "b,]}\"");
  EXPECT_THAT(items[1].Items("/in"), IsEmpty());
  EXPECT_EQ(items[2].Int(""), 3);
  EXPECT_EQ(items[3].String(""), "x, y");
  EXPECT_EQ(items[4].String(""), "null");
  EXPECT_THAT(Texts(Json(" [ [1,2] , {} ] ").Items()), ElementsAre("[1,2]", "{}"));
}

TEST(JsonTest, WhatIsNoListHasNoItems) {
  EXPECT_THAT(Json("{\"a\":\"[1,2]\"}").Items("/a"), IsEmpty());  // a text that looks like one
  EXPECT_THAT(Json("{\"0\":1}").Items(), IsEmpty());
  EXPECT_THAT(Json("{\"a\":[]}").Items("/a"), IsEmpty());
  EXPECT_THAT(Json("[ ]").Items(), IsEmpty());
  EXPECT_THAT(Json("[1,2").Items(), IsEmpty());
  EXPECT_THAT(Json("").Items("/a"), IsEmpty());
}

}  // namespace
}  // namespace kvgate::test
