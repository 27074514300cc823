#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gateway/session/answer/answer_reader.h"

namespace kvgate::session::answer {
namespace {

using nlohmann::json;
using State = AnswerReader::State;

std::string Chunk(const std::string& delta, const std::string& reason = "null") {
  return R"({"choices":[{"index":0,"delta":)" + delta + R"(,"finish_reason":)" + reason + "}]}";
}

State FeedAll(AnswerReader& reader, const std::vector<std::string>& events) {
  State state = State::kOpen;
  for (const std::string& event : events) state = reader.OnEvent(event);
  return state;
}

json MessageOf(AnswerReader& reader) {
  const RecordedAnswer answer = reader.Take();
  EXPECT_EQ(answer.messages.size(), 1u);
  return answer.messages.empty() ? json() : json::parse(answer.messages.front().json);
}

TEST(ChatReaderTest, PiecesBecomeOneMessage) {
  const auto reader = MakeChatReader();
  EXPECT_EQ(FeedAll(*reader, {Chunk(R"({"role":"assistant","content":""})"),
                              Chunk(R"({"reasoning_content":"let "})"),
                              Chunk(R"({"reasoning_content":"me see"})"),
                              Chunk(R"({"content":"Hel"})"), Chunk(R"({"content":"lo"})")}),
            State::kOpen);
  EXPECT_EQ(reader->OnEvent(Chunk("{}", R"("stop")")), State::kEnding);
  EXPECT_EQ(reader->OnEvent(R"({"choices":[],"usage":{"prompt_tokens":40,"completion_tokens":2,
                               "prompt_tokens_details":{"cached_tokens":16}}})"),
            State::kEnding);
  EXPECT_EQ(reader->OnEvent("[DONE]"), State::kComplete);
  const RecordedAnswer answer = reader->Take();
  EXPECT_EQ(json::parse(answer.messages.front().json),
            json::parse(R"({"role":"assistant","content":"Hello",
                            "reasoning_content":"let me see"})"));
  EXPECT_EQ(answer.tokens.input, 40);
  EXPECT_EQ(answer.tokens.cached, 16);
  EXPECT_EQ(answer.tokens.output, 2);
}

TEST(ChatReaderTest, CallsAreJoinedByTheirIndex) {
  const auto reader = MakeChatReader();
  FeedAll(*reader, {Chunk(R"({"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"c0",
                     "type":"function","function":{"name":"f","arguments":""}}]})"),
                    Chunk(R"({"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]})"),
                    Chunk(R"({"tool_calls":[{"index":1,"id":"c1","type":"function",
                     "function":{"name":"g","arguments":"{}"}}]})"),
                    Chunk(R"({"tool_calls":[{"index":0,"id":"","function":{"arguments":":1}"}}]})"),
                    Chunk("{}", R"("tool_calls")")});
  EXPECT_EQ(MessageOf(*reader), json::parse(R"({"role":"assistant","content":null,"tool_calls":[
      {"id":"c0","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},
      {"id":"c1","type":"function","function":{"name":"g","arguments":"{}"}}]})"));
}

TEST(ChatReaderTest, AWholeBodyIsTheSame) {
  const auto reader = MakeChatReader();
  ASSERT_TRUE(reader->OnBody(R"({"choices":[{"index":0,"finish_reason":"stop","message":{
      "role":"assistant","content":"Hello","refusal":null,"annotations":[],
      "reasoning_details":[{"type":"reasoning.encrypted","data":"x"}]}}],
      "usage":{"prompt_tokens":3,"completion_tokens":1}})"));
  EXPECT_EQ(MessageOf(*reader), json::parse(R"({"role":"assistant","content":"Hello",
      "reasoning_details":[{"type":"reasoning.encrypted","data":"x"}]})"));
}

TEST(ChatReaderTest, WhatBreaksOrIsRefusedIsNoAnswer) {
  EXPECT_EQ(FeedAll(*MakeChatReader(), {Chunk(R"({"content":"a"})"), "[DONE]"}), State::kBroken);
  EXPECT_EQ(
      FeedAll(*MakeChatReader(), {Chunk(R"({"content":"a"})"), R"({"error":{"message":"no"}})"}),
      State::kBroken);
  EXPECT_EQ(FeedAll(*MakeChatReader(), {Chunk("{}", R"("content_filter")")}), State::kBroken);
  EXPECT_EQ(FeedAll(*MakeChatReader(), {"no json"}), State::kBroken);
  for (const char* body : {"", "{}", R"({"choices":[]})", R"({"choices":[{"message":{}}]})",
                           R"({"error":{"message":"no"}})"}) {
    EXPECT_FALSE(MakeChatReader()->OnBody(body)) << body;
  }
}

}  // namespace
}  // namespace kvgate::session::answer
