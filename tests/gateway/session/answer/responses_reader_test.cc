#include <gtest/gtest.h>

#include <string>

#include "gateway/session/answer/answer_reader.h"

namespace kvgate::session::answer {
namespace {

using State = AnswerReader::State;

constexpr const char* kReasoning = R"({"type":"reasoning","id":"rs_1","encrypted_content":"x=="})";
constexpr const char* kCall =
    R"({"type":"function_call","call_id":"c","name":"f","arguments":"{}"})";

TEST(ResponsesReaderTest, OutputItemsAreTheNextInput) {
  const auto reader = MakeResponsesReader();
  ASSERT_TRUE(reader->OnBody(R"({"status":"completed","output":[)" + std::string(kReasoning) + "," +
                             kCall + R"(],"usage":{"input_tokens":40,"output_tokens":2,
                             "input_tokens_details":{"cached_tokens":16}}})"));
  const RecordedAnswer answer = reader->Take();
  ASSERT_EQ(answer.messages.size(), 2u);
  EXPECT_EQ(answer.messages[0].json, kReasoning);
  EXPECT_EQ(answer.messages[1].json, kCall);
  EXPECT_EQ(answer.tokens.input, 40);
  EXPECT_EQ(answer.tokens.cached, 16);
}

TEST(ResponsesReaderTest, AStreamsLastEventHasThemAll) {
  const auto reader = MakeResponsesReader();
  EXPECT_EQ(reader->OnEvent(R"({"type":"response.created","response":{}})"), State::kOpen);
  EXPECT_EQ(reader->OnEvent(R"({"type":"response.completed","response":{"status":"completed",
                               "output":[)" +
                            std::string(kCall) + "]}}"),
            State::kComplete);
  EXPECT_EQ(reader->Take().messages.front().json, kCall);
}

TEST(ResponsesReaderTest, ItemsAreTakenAsTheyEndWhereTheLastEventHasNone) {
  const auto reader = MakeResponsesReader();
  reader->OnEvent(R"({"type":"response.output_item.done","output_index":1,"item":)" +
                  std::string(kCall) + "}");
  reader->OnEvent(R"({"type":"response.output_item.done","output_index":0,"item":)" +
                  std::string(kReasoning) + "}");
  EXPECT_EQ(reader->OnEvent(
                R"({"type":"response.incomplete","response":{"status":"incomplete","output":[]}})"),
            State::kComplete);
  const RecordedAnswer answer = reader->Take();
  ASSERT_EQ(answer.messages.size(), 2u);
  EXPECT_EQ(answer.messages[0].json, kReasoning);
}

TEST(ResponsesReaderTest, WhatFailsIsNoAnswer) {
  EXPECT_EQ(MakeResponsesReader()->OnEvent(R"({"type":"response.failed","response":{}})"),
            State::kBroken);
  EXPECT_EQ(MakeResponsesReader()->OnEvent(R"({"type":"error"})"), State::kBroken);
  EXPECT_FALSE(MakeResponsesReader()->OnBody(R"({"status":"failed","output":[]})"));
  EXPECT_FALSE(MakeResponsesReader()->OnBody(
      R"({"status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]})"));
  EXPECT_FALSE(MakeResponsesReader()->OnBody("{}"));
}

}  // namespace
}  // namespace kvgate::session::answer
