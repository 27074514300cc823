#include "gateway/session/results/read_tool.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace kvgate::session::results {
namespace {

using transcript::Kind;
using Json = nlohmann::json;

TEST(ReadToolTest, ItStandsBehindTheCallersTools) {
  const std::string own = R"([ {"type":"function","function":{"name":"f"}} ])";
  const std::string with = WithReadTool(Dialect::kChatCompletions, own);
  EXPECT_TRUE(with.starts_with(R"([ {"type":"function","function":{"name":"f"}} ,{)"));
  const Json tools = Json::parse(with);
  ASSERT_EQ(tools.size(), 2u);
  EXPECT_EQ(tools[1]["function"]["name"], kReadTool);
  EXPECT_EQ(tools[1]["function"]["parameters"]["required"], Json::array({"id"}));
  EXPECT_TRUE(HasReadTool(with));
  EXPECT_FALSE(HasReadTool(own));
  EXPECT_EQ(WithReadTool(Dialect::kChatCompletions, with), with);
  for (const char* none : {"", "null", "[]", "[ ]"}) {
    EXPECT_EQ(Json::parse(WithReadTool(Dialect::kChatCompletions, none)).size(), 1u) << none;
  }
  EXPECT_EQ(WithReadTool(Dialect::kChatCompletions, "5"), "5");
  EXPECT_TRUE(Json::parse(WithReadTool(Dialect::kMessages, ""))[0].contains("input_schema"));
  EXPECT_EQ(Json::parse(WithReadTool(Dialect::kResponses, ""))[0]["name"], kReadTool);
}

TEST(ReadToolTest, CallsAreFoundInEachDialect) {
  const auto only = [](Dialect dialect, const Json& message) {
    const std::vector<Message> said = {{.kind = Kind::kAssistant, .json = message.dump()}};
    const std::vector<Call> calls = CallsOf(dialect, said);
    EXPECT_EQ(calls.size(), 1u);
    return calls.empty() ? Call() : calls[0];
  };
  const std::string arguments = R"({"id":"res_1"})";
  for (const Call& call :
       {only(Dialect::kChatCompletions,
             {{"role", "assistant"},
              {"tool_calls",
               Json::array({{{"id", "c"},
                             {"type", "function"},
                             {"function", {{"name", kReadTool}, {"arguments", arguments}}}}})}}),
        only(Dialect::kMessages, {{"role", "assistant"},
                                  {"content", Json::array({{{"type", "text"}, {"text", "I look."}},
                                                           {{"type", "tool_use"},
                                                            {"id", "c"},
                                                            {"name", kReadTool},
                                                            {"input", {{"id", "res_1"}}}}})}}),
        only(Dialect::kResponses, {{"type", "function_call"},
                                   {"call_id", "c"},
                                   {"name", kReadTool},
                                   {"arguments", arguments}})}) {
    EXPECT_EQ(call.id, "c");
    EXPECT_EQ(call.name, kReadTool);
    EXPECT_EQ(call.arguments, arguments);
  }
}

TEST(ReadToolTest, ResultsOfMessagesStandInOneMessage) {
  const std::vector<CallResult> results = {{.call_id = "a", .text = "1"},
                                           {.call_id = "b", .text = "2"}};
  EXPECT_EQ(ToMessages(Dialect::kChatCompletions, results).size(), 2u);
  EXPECT_EQ(ToMessages(Dialect::kResponses, results).size(), 2u);
  const std::vector<Message> messages = ToMessages(Dialect::kMessages, results);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].kind, Kind::kTool);
  EXPECT_EQ(Json::parse(messages[0].json)["content"][1]["tool_use_id"], "b");
}

class AnswerCallTest : public testing::Test {
 protected:
  std::string Answer(const std::string& arguments) const {
    return AnswerCall(
        arguments,
        [&](std::string_view id) {
          return id == "res_1" ? std::optional(text_) : std::optional<std::string>();
        },
        2000);
  }
  std::string text_ = std::string(5000, 'a') + "needle" + std::string(5000, 'b');
};

TEST_F(AnswerCallTest, PartsFollowEachOtherWithoutAGap) {
  EXPECT_EQ(Answer(R"({"id":"res_1"})"), "[bytes 0 to 2000 of 10006]\n" + text_.substr(0, 2000));
  EXPECT_EQ(Answer(R"({"id":"res_1","offset":2000})"),
            "[bytes 2000 to 4000 of 10006]\n" + text_.substr(2000, 2000));
  EXPECT_EQ(Answer(R"({"id":"res_1","offset":10000})"), "[bytes 10000 to 10006 of 10006]\nbbbbbb");
}

TEST_F(AnswerCallTest, ATextIsFoundWithWhatIsAroundIt) {
  const std::string answer = Answer(R"({"id":"res_1","find":"needle"})");
  EXPECT_TRUE(answer.starts_with("[1 places of 10006 bytes have it]\n[byte 5000] "));
  EXPECT_NE(answer.find("aneedleb"), std::string::npos);
  EXPECT_LT(answer.size(), 600u);
  EXPECT_TRUE(Answer(R"({"id":"res_1","find":"none"})").starts_with("[0 places"));
}

TEST_F(AnswerCallTest, APlaceMoreOftenThanThereIsRoomIsCounted) {
  text_ = "";
  for (int i = 0; i < 1000; ++i) text_ += "x" + std::string(500, ' ');
  const std::string answer = Answer(R"({"id":"res_1","find":"x"})");
  EXPECT_TRUE(answer.starts_with("[1000 places"));
  EXPECT_LE(answer.size(), 2100u);
}

TEST_F(AnswerCallTest, WhatIsWrongIsSaidToTheModel) {
  EXPECT_TRUE(Answer("nonsense").starts_with("[The arguments"));
  EXPECT_TRUE(Answer(R"({"id":"res_2"})").starts_with("[No result 'res_2'"));
  EXPECT_TRUE(Answer(R"({"id":"res_1","offset":"x"})").starts_with("[The offset"));
  EXPECT_TRUE(Answer(R"({"id":"res_1","offset":20000})").starts_with("[The result has"));
  EXPECT_TRUE(Answer(R"({"id":"res_1","offset":-5})").starts_with("[bytes 0 to 2000"));
}

}  // namespace
}  // namespace kvgate::session::results
