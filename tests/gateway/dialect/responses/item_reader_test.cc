// These tests run the reader through the decoder that uses it, as its header is for decoders alone.
#include "gateway/dialect/responses/responses.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace kvgate::dialect::responses {
namespace {

using nlohmann::json;

Result<std::vector<ResponsesItem>> Read(const std::string& text) {
  const std::string body = R"({"model":"m","input":)" + text + "}";
  KVGATE_TRY(ResponsesRequest request,
             DecodeResponses({.body = body, .request_id = "0123456789abcdef01234567"}, {}));
  return std::move(request.input);
}

TEST(ItemReaderTest, AStringIsAUsersMessage) {
  const auto items = Read(R"("hi")");
  ASSERT_TRUE(items);
  const json item = json::parse(items->front().json);
  EXPECT_EQ(item["type"], "message");
  EXPECT_EQ(item["role"], "user");
  EXPECT_EQ(item["status"], "completed");
  EXPECT_EQ(item["content"][0], (json{{"type", "input_text"}, {"text", "hi"}}));
  EXPECT_EQ(item["id"], items->front().id);
}

TEST(ItemReaderTest, ItemsAreKeptAsTheyCameWithIdsOfTheirOwn) {
  const auto items = Read(
      R"([{"role":"assistant","content":"a"},{"id":"fc_1","type":"function_call","call_id":"c",)"
      R"("name":"f","arguments":"{}","status":null,"n":9007199254740993},)"
      R"({"type":"reasoning","summary":[]},{"type":"item_reference","id":"msg_9"}])");
  ASSERT_TRUE(items) << items.error().ToString();
  ASSERT_EQ(items->size(), 4u);
  EXPECT_EQ(json::parse((*items)[0].json)["content"][0]["type"], "output_text");
  EXPECT_EQ((*items)[1].id, "fc_1");
  EXPECT_EQ((*items)[1].json,
            R"({"id":"fc_1","type":"function_call","call_id":"c","name":"f","arguments":"{}",)"
            R"("n":9007199254740993,"status":"completed"})");
  EXPECT_EQ((*items)[2].id, "rs_kv0123456789abcdef01234567_i2");
  EXPECT_FALSE(json::parse((*items)[2].json).contains("status"));
  EXPECT_TRUE((*items)[3].is_reference);
  EXPECT_EQ((*items)[3].id, "msg_9");
}

TEST(ItemReaderTest, WhatIsNoItemIsRefusedByItsPlace) {
  EXPECT_EQ(Read("{}").error().field, "input");
  EXPECT_EQ(Read("[7]").error().field, "input[0]");
  EXPECT_EQ(Read(R"([{"type":7}])").error().field, "input[0].type");
  EXPECT_EQ(Read(R"([{"type":"message","id":")" + std::string(300, 'x') + R"("}])").error().field,
            "input[0].id");
  EXPECT_EQ(Read(R"([{"role":"user","role":"user","content":"x"}])").error().field,
            "input[0].role");
  EXPECT_EQ(Read(R"([{"role":"user"}])").error().field, "input[0].content");
}

}  // namespace
}  // namespace kvgate::dialect::responses
