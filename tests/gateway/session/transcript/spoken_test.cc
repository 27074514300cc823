#include "gateway/session/transcript/spoken.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvgate::session::transcript {
namespace {

std::vector<Message> Read(Dialect dialect, std::string_view list) {
  auto read = ReadMessages(dialect, list, "messages");
  EXPECT_TRUE(read) << read.error().detail;
  return *read;
}

TEST(SpokenTest, EveryDialectIsReadAlike) {
  const std::string expected =
      "User: list them\nAssistant: I look\nCall of ls: {\"path\":\"/\"}\nResult: a b\n"
      "Assistant: two\n";
  EXPECT_EQ(ToPlainText(Read(Dialect::kChatCompletions, R"([
      {"role":"user","content":"list them"},
      {"role":"assistant","content":"I look","tool_calls":[{"id":"1","type":"function",
       "function":{"name":"ls","arguments":"{\"path\":\"/\"}"}}]},
      {"role":"tool","tool_call_id":"1","content":"a b"},
      {"role":"assistant","content":"two"}])")),
            expected);
  EXPECT_EQ(ToPlainText(Read(Dialect::kMessages, R"([
      {"role":"user","content":[{"type":"text","text":"list them"}]},
      {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},
       {"type":"text","text":"I look"},{"type":"tool_use","id":"1","name":"ls",
       "input":{"path":"/"}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":
       [{"type":"text","text":"a b"}]}]},
      {"role":"assistant","content":"two"}])")),
            expected);
  EXPECT_EQ(ToPlainText(Read(Dialect::kResponses, R"([
      {"role":"user","content":"list them"},
      {"type":"reasoning","id":"r","summary":[]},
      {"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look"}]},
      {"type":"function_call","call_id":"1","name":"ls","arguments":"{\"path\":\"/\"}"},
      {"type":"function_call_output","call_id":"1","output":"a b"},
      {"role":"assistant","content":"two"}])")),
            expected);
}

TEST(SpokenTest, ACallOfATextKeepsItsText) {
  const std::string expected = "Call of patch: *** Begin\nResult: done\n";
  EXPECT_EQ(ToPlainText(Read(Dialect::kResponses, R"([
      {"type":"custom_tool_call","call_id":"1","name":"patch","input":"*** Begin"},
      {"type":"custom_tool_call_output","call_id":"1","output":"done"}])")),
            expected);
  EXPECT_EQ(ToPlainText(Read(Dialect::kChatCompletions, R"([
      {"role":"assistant","tool_calls":[{"id":"1","type":"custom",
       "custom":{"name":"patch","input":"*** Begin"}}]},
      {"role":"tool","tool_call_id":"1","content":"done"}])")),
            expected);
}

TEST(SpokenTest, MediaAreNamedAndWhatIsEmptyIsNot) {
  EXPECT_EQ(ToPlainText(Read(Dialect::kChatCompletions, R"([
      {"role":"user","content":[{"type":"image_url","image_url":{}},
                                {"type":"text","text":""}]}])")),
            "User: [image_url]\n");
  EXPECT_EQ(ToPlainText({}), "");
}

TEST(SpokenTest, TextsAndCallsOfAMessageAreTold) {
  const auto messages = Read(Dialect::kMessages, R"([
      {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},
       {"type":"text","text":"a"},{"type":"text","text":"b"}]},
      {"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r"}]}])");
  EXPECT_EQ(TextOf(messages[0]), "ab");
  EXPECT_FALSE(CallsTool(messages[0]));
  EXPECT_TRUE(CallsTool(messages[1]));
  EXPECT_FALSE(CallsTool(messages[2]));
  EXPECT_EQ(TextOf(messages[1]), "");
}

}  // namespace
}  // namespace kvgate::session::transcript
