#include "gateway/dialect/responses/prompt_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gateway/dialect/form/left_out.h"
#include "gateway/dialect/responses/responses.h"

namespace kvgate::dialect::responses {

using form::DecodeLimits;
using form::Message;

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kRequest = "000000000000000000000abc";

Result<std::vector<Message>> Build(const std::string& items, const DecodeLimits& limits = {}) {
  const std::string body = R"({"model":"m","input":)" + items + "}";
  KVGATE_TRY(const ResponsesRequest request,
             DecodeResponses({.body = body, .request_id = kRequest}, limits));
  PromptBuilder builder(limits);
  KVGATE_TRY_VOID(builder.Add(request.input, "input"));
  builder.AddInstructions("rules");
  return builder.Take();
}

std::vector<Message> Turns(const std::string& items) {
  auto turns = Build(items);
  EXPECT_TRUE(turns) << turns.error().ToString();
  if (!turns) return {};
  turns->erase(turns->begin());
  return *turns;
}

TEST(PromptBuilderTest, InstructionsComeFirst) {
  EXPECT_EQ(Build(R"("hi")")->front(), (Message{.role = "system", .content = "rules"}));
  EXPECT_THAT(Turns(R"("hi")"), ElementsAre(Message{.role = "user", .content = "hi"}));
}

TEST(PromptBuilderTest, ReasoningTextAndCallsAreOneTurn) {
  const auto turns = Turns(
      R"([{"role":"user","content":[{"type":"input_text","text":"a"},)"
      R"({"type":"input_text","text":"b"}]},)"
      R"({"type":"reasoning","summary":[{"type":"summary_text","text":"short"}],)"
      R"("content":[{"type":"reasoning_text","text":"long"}]},)"
      R"({"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look"}]},)"
      R"({"type":"function_call","call_id":"1","name":"f","arguments":"{}"},)"
      R"({"type":"function_call","call_id":"2","name":"g","arguments":"{\"a\":1}"},)"
      R"({"type":"function_call_output","call_id":"2","output":[{"type":"input_text",)"
      R"("text":"x"}]},)"
      R"({"type":"function_call_output","call_id":"1","output":"y"},)"
      R"({"role":"developer","content":"be brief"}])");
  ASSERT_EQ(turns.size(), 5u);
  EXPECT_EQ(turns[0].content, "a\nb");
  EXPECT_EQ(turns[1],
            (Message{.role = "assistant",
                     .content = "I look",
                     .reasoning = "long",
                     .tool_calls = {{.id = "1", .name = "f", .arguments = "{}"},
                                    {.id = "2", .name = "g", .arguments = R"({"a":1})"}}}));
  EXPECT_EQ(turns[2], (Message{.role = "tool", .content = "x", .tool_call_id = "2"}));
  EXPECT_EQ(turns[4].role, "developer");
}

TEST(PromptBuilderTest, AllItemsOfOneAnswerAreOneTurnAndOthersAreNot) {
  const auto item = [](const std::string& id, const std::string& text) {
    return R"({"role":"assistant","id":")" + id + R"(","content":")" + text + R"("})";
  };
  const std::string one = "msg_kv000000000000000000000abc_";
  EXPECT_EQ(Turns("[" + item(one + "0", "a") + "," + item(one + "2", "b") + "]").size(), 1u);
  EXPECT_EQ(Turns("[" + item("x", "a") + "," + item("y", "b") + "]").size(), 2u);
  const std::string other = "msg_kv000000000000000000000def_";
  EXPECT_EQ(Turns("[" + item(one + "0", "a") + "," + item(other + "0", "b") + "]").size(), 2u);
  // A reasoning item begins a turn.
  EXPECT_EQ(Turns("[" + item("x", "a") +
                  R"(,{"type":"reasoning","summary":[{"type":"summary_text","text":"r"}]}])")
                .size(),
            2u);
}

struct BadItem {
  const char* items;
  const char* field;
  const char* message;
};

class BadItemTest : public ::testing::TestWithParam<BadItem> {};

TEST_P(BadItemTest, IsRefusedByItsPlace) {
  const auto turns = Build(GetParam().items);
  ASSERT_FALSE(turns) << GetParam().items;
  EXPECT_EQ(turns.error().field, GetParam().field);
  EXPECT_THAT(turns.error().detail, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Items, BadItemTest,
    ::testing::Values(
        BadItem{R"([{"role":"tool","content":"x"}])", "input[0].role", "'developer'"},
        BadItem{R"([{"role":"user","content":[{"type":"input_smell","smell":"x"}]}])",
                "input[0].content[0].type", "input_smell"},
        BadItem{R"([{"role":"user","content":[{"type":"input_image"}]}])",
                "input[0].content[0].image_url", "Missing"},
        BadItem{R"([{"role":"user","content":7}])", "input[0].content", "array of content parts"},
        BadItem{R"([{"type":"compaction_trigger","id":"cmp_1"}])", "input[0].type", "compaction"},
        BadItem{R"([{"type":"custom_tool_call","call_id":"1","name":"f"}])", "input[0].input",
                "Missing"},
        BadItem{R"([{"type":"custom_tool_call_output","call_id":"9","output":"x"}])",
                "input[0].call_id", "No tool call found"},
        BadItem{R"([{"type":"function_call","name":"f","arguments":"{}"}])", "input[0].call_id",
                "Missing"},
        BadItem{R"([{"type":"function_call","call_id":"1","name":"f","arguments":{}}])",
                "input[0].arguments", "a string"},
        BadItem{R"([{"type":"function_call_output","call_id":"9","output":"x"}])",
                "input[0].call_id", "No tool call found"},
        BadItem{R"([{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},)"
                R"({"type":"function_call_output","call_id":"1"}])",
                "input[1].output", "Missing"}));

TEST(PromptBuilderTest, AConversationHasSoManyTurnsAtMost) {
  const DecodeLimits limits{.messages_max = 2};
  const auto turns = Build(R"([{"role":"user","content":"a"},{"role":"user","content":"b"},)"
                           R"({"role":"user","content":"c"}])",
                           limits);
  ASSERT_FALSE(turns);
  EXPECT_EQ(turns.error().field, "input");
}

TEST(PromptBuilderTest, CustomCallsAndNamespacesBecomeCallsOfTheFlatName) {
  const auto turns =
      Turns(R"([{"role":"user","content":"a"},)"
            R"({"type":"custom_tool_call","call_id":"1","name":"exec","namespace":"functions",)"
            R"("input":"say \"hi\"\n"},)"
            R"({"type":"custom_tool_call_output","call_id":"1","output":"hi"},)"
            R"({"type":"function_call","call_id":"2","name":"spawn","namespace":"agents",)"
            R"("arguments":"{}"},)"
            R"({"type":"function_call_output","call_id":"2","output":"done"}])");
  ASSERT_EQ(turns.size(), 5u);
  EXPECT_EQ(
      turns[1].tool_calls.front(),
      (form::ToolCall{
          .id = "1", .name = "functions__exec", .arguments = R"({"input": "say \"hi\"\n"})"}));
  EXPECT_EQ(turns[2].content, "hi");
  EXPECT_EQ(turns[3].tool_calls.front().name, "agents__spawn");
}

TEST(PromptBuilderTest, WhatCannotBeTakenIsLeftOutAndNamed) {
  const std::string body =
      R"({"model":"m","input":[)"
      R"({"type":"additional_tools","role":"developer","tools":[{"type":"custom","name":"exec"},)"
      R"({"type":"image_generation"}]},)"
      R"({"role":"user","content":[{"type":"input_text","text":"see"},)"
      R"({"type":"input_image","image_url":"data:image/png;base64,AA=="}]},)"
      R"({"type":"web_search_call","id":"ws","status":"completed"},)"
      R"({"type":"function_call","call_id":"1","name":"view","arguments":"{}"},)"
      R"({"type":"function_call_output","call_id":"1","output":[)"
      R"({"type":"input_image","image_url":"data:image/png;base64,AA=="}]}]})";
  const DecodeLimits limits;
  const auto request = DecodeResponses({.body = body, .request_id = kRequest}, limits);
  ASSERT_TRUE(request) << request.error().ToString();
  PromptBuilder builder(limits);
  ASSERT_TRUE(builder.Add(request->input, "input"));
  form::CompletionRequest whole = request->request;
  builder.TakeTools(whole);
  EXPECT_THAT(whole.left_out, ElementsAre("image_generation", "image", "web_search_call"));
  ASSERT_EQ(whole.tools.size(), 1u) << "the items' tools are there once";
  EXPECT_TRUE(whole.tools[0].is_custom);
  const std::vector<Message> turns = builder.Take();
  ASSERT_EQ(turns.size(), 3u);
  EXPECT_EQ(turns[0].content,
            "see\n" + form::PlaceholderOf({.what = "image", .type = "image/png"}));
  EXPECT_EQ(turns[2].content, form::PlaceholderOf({.what = "image", .type = "image/png"}));
}

// The session continues: the model is told that something is missing, and the client which item it
// was.
TEST(PromptBuilderTest, ACompactionOfAProvidersIsALineOfTextAndOneThatCanBeReadItsSummary) {
  const DecodeLimits limits;
  for (const std::string type : {"compaction", "compaction_summary", "context_compaction"}) {
    const std::string item = R"({"type":")" + type + R"(","id":"cmp_1")";
    const std::string body = R"({"model":"m","input":[{"role":"user","content":"first"},)" + item +
                             R"(,"encrypted_content":"gAAAAB"},{"role":"user","content":"and?"},)" +
                             item + R"(,"content":[{"type":"output_text","text":"read"}]}]})";
    const auto request = DecodeResponses({.body = body, .request_id = kRequest}, limits);
    ASSERT_TRUE(request) << request.error().ToString();
    PromptBuilder builder(limits);
    ASSERT_TRUE(builder.Add(request->input, "input"));
    form::CompletionRequest whole = request->request;
    builder.TakeTools(whole);
    EXPECT_THAT(whole.left_out, ElementsAre(type));
    const std::vector<Message> turns = builder.Take();
    ASSERT_EQ(turns.size(), 4u);
    EXPECT_EQ(turns[1].content, form::kSealedCompaction);
    EXPECT_EQ(turns[1].role, "user");
    EXPECT_EQ(turns[3].content, "read");
  }
}

// An answer without the item that it asks for would end its client's session.
TEST(PromptBuilderTest, ARequestForACompactionIsRefusedByName) {
  const auto turns = Build(R"([{"role":"user","content":"a"},{"type":"compaction_trigger"}])");
  ASSERT_FALSE(turns);
  EXPECT_EQ(turns.error().field, "input[1].type");
  EXPECT_THAT(turns.error().detail, HasSubstr("'compaction_trigger'"));
}

TEST(PromptBuilderTest, ToolsOfKeptItemsCanBeCalled) {
  const DecodeLimits limits;
  PromptBuilder builder(limits);
  const responses::ResponsesItem item{
      .id = "at_1",
      .json = R"({"id":"at_1","type":"additional_tools","tools":[{"type":"function","name":"f"},)"
              R"({"type":"function","name":"g"}]})"};
  ASSERT_TRUE(builder.Add({&item, 1}, "conversation"));
  form::CompletionRequest request;
  request.tools.push_back({.name = "g", .parameters = "own"});
  builder.TakeTools(request);
  ASSERT_EQ(request.tools.size(), 2u);
  EXPECT_EQ(request.tools[0].parameters, "own") << "the request's own counts";
  EXPECT_EQ(request.tools[1].name, "f");
}

}  // namespace
}  // namespace kvgate::dialect::responses
