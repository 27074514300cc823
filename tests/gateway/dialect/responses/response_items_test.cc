#include "gateway/dialect/responses/response_items.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace kvgate::dialect::responses {
namespace {

using nlohmann::json;

constexpr std::string_view kRequest = "0123456789abcdef01234567";

TEST(ResponseItemsTest, AnIdOfOursNamesItsRequest) {
  const std::string id = AnswerItemId("reasoning", kRequest, 3);
  EXPECT_EQ(id, "rs_kv0123456789abcdef01234567_3");
  EXPECT_EQ(RequestOf(id), kRequest);
  EXPECT_EQ(RequestOf("resp_kv0123456789abcdef01234567"), kRequest);
  for (const char* other :
       {"", "resp_", "resp_0123456789abcdef01234567", "kv0123456789abcdef01234567",
        "resp_kv0123456789ABCDEF01234567", "resp_kv0123456789abcdef0123456"}) {
    EXPECT_EQ(RequestOf(other), "") << other;
  }
}

TEST(ResponseItemsTest, SealedReasoningComesBackAsItWas) {
  for (const std::string text : {"", "a", "ab", "abc", "abcd", "é 😀 \n\"quoted\""}) {
    EXPECT_EQ(OpenReasoning(SealReasoning(text)), text);
  }
  EXPECT_EQ(SealReasoning("hm"), "kvgate-reasoning-1:aG0=");
  EXPECT_EQ(OpenReasoning("gAAAAABother"), "");
  EXPECT_EQ(OpenReasoning("kvgate-reasoning-1://///w=="), "") << "no UTF-8";
}

TEST(ResponseItemsTest, ArraysComeBackAsTheirItems) {
  const std::vector<ResponsesItem> items = {{.id = "a", .json = R"({"id":"a","n":1.0})"},
                                            {.id = "b", .json = R"({"id":"b"})"}};
  const auto parsed = ParseItems(ToArray(items));
  ASSERT_TRUE(parsed);
  EXPECT_EQ((*parsed)[0].json, items[0].json);
  EXPECT_EQ((*parsed)[1].id, "b");
  EXPECT_FALSE(ParseItems("{}"));
  EXPECT_FALSE(ParseItems(R"([{"type":"x"}])"));
}

TEST(ResponseItemsTest, PagesCoverAllItemsInEitherOrder) {
  std::vector<ResponsesItem> items;
  for (int i = 0; i < 45; ++i) {
    const std::string id = "i" + std::to_string(i);
    items.push_back({.id = id, .json = R"({"id":")" + id + R"("})"});
  }
  for (const std::string order : {"", "asc", "desc"}) {
    std::vector<std::string> seen;
    std::string after;
    bool more = true;
    while (more) {
      const auto page = EncodeItemPage(items, {.limit = "20", .order = order, .after = after});
      ASSERT_TRUE(page);
      const json parsed = json::parse(*page);
      EXPECT_EQ(parsed["object"], "list");
      EXPECT_EQ(parsed["first_id"], parsed["data"].front()["id"]);
      for (const json& item : parsed["data"]) seen.push_back(item["id"]);
      after = parsed["last_id"];
      more = parsed["has_more"];
    }
    ASSERT_EQ(seen.size(), items.size());
    EXPECT_EQ(seen.front(), order == "asc" ? "i0" : "i44");
    EXPECT_EQ(seen.back(), order == "asc" ? "i44" : "i0");
  }
  EXPECT_EQ(json::parse(*EncodeItemPage({}, {}))["first_id"], nullptr);
  EXPECT_EQ(EncodeItemPage(items, {.limit = "0"}).error().field, "limit");
  EXPECT_EQ(EncodeItemPage(items, {.limit = "x"}).error().field, "limit");
  EXPECT_EQ(EncodeItemPage(items, {.order = "up"}).error().field, "order");
  EXPECT_EQ(EncodeItemPage(items, {.after = "no"}).error().field, "after");
}

}  // namespace
}  // namespace kvgate::dialect::responses
