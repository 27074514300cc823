#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "gateway/session/answer/answer_reader.h"

namespace kvgate::session::answer {
namespace {

using nlohmann::json;
using State = AnswerReader::State;

std::string Block(int index, const std::string& block) {
  return R"({"type":"content_block_start","index":)" + std::to_string(index) +
         R"(,"content_block":)" + block + "}";
}
std::string Delta(int index, const std::string& delta) {
  return R"({"type":"content_block_delta","index":)" + std::to_string(index) + R"(,"delta":)" +
         delta + "}";
}

TEST(MessagesReaderTest, ThinkingKeepsItsSignatureAndCallsTheirInput) {
  const auto reader = MakeMessagesReader();
  reader->OnEvent(R"({"type":"message_start","message":{"content":[],"usage":{"input_tokens":10,
      "cache_read_input_tokens":20,"cache_creation_input_tokens":5,"output_tokens":1}}})");
  reader->OnEvent(Block(0, R"({"type":"thinking","thinking":"","signature":""})"));
  reader->OnEvent(Delta(0, R"({"type":"thinking_delta","thinking":"hm "})"));
  reader->OnEvent(Delta(0, R"({"type":"thinking_delta","thinking":"hm"})"));
  reader->OnEvent(Delta(0, R"({"type":"signature_delta","signature":"sig=="})"));
  reader->OnEvent(R"({"type":"content_block_stop","index":0})");
  reader->OnEvent(Block(1, R"({"type":"redacted_thinking","data":"opaque"})"));
  reader->OnEvent(Block(2, R"({"type":"text","text":""})"));
  reader->OnEvent(R"({"type":"ping"})");
  reader->OnEvent(Delta(2, R"({"type":"text_delta","text":"Hello"})"));
  reader->OnEvent(Delta(2, R"({"type":"citations_delta","citation":{"url":"u"}})"));
  reader->OnEvent(Block(3, R"({"type":"tool_use","id":"t","name":"f","input":{}})"));
  reader->OnEvent(Delta(3, R"({"type":"input_json_delta","partial_json":"{\"a\""})"));
  EXPECT_EQ(reader->OnEvent(Delta(3, R"({"type":"input_json_delta","partial_json":":1}"})")),
            State::kOpen);
  EXPECT_EQ(reader->OnEvent(R"({"type":"message_delta","delta":{"stop_reason":"tool_use"},
                               "usage":{"output_tokens":9}})"),
            State::kEnding);
  EXPECT_EQ(reader->OnEvent(R"({"type":"message_stop"})"), State::kComplete);
  const RecordedAnswer answer = reader->Take();
  ASSERT_EQ(answer.messages.size(), 1u);
  EXPECT_EQ(json::parse(answer.messages.front().json),
            json::parse(R"({"role":"assistant","content":[
      {"type":"thinking","thinking":"hm hm","signature":"sig=="},
      {"type":"redacted_thinking","data":"opaque"},
      {"type":"text","text":"Hello","citations":[{"url":"u"}]},
      {"type":"tool_use","id":"t","name":"f","input":{"a":1}}]})"));
  EXPECT_EQ(answer.tokens.input, 35);
  EXPECT_EQ(answer.tokens.cached, 20);
  EXPECT_EQ(answer.tokens.output, 9);
}

TEST(MessagesReaderTest, ABodysContentIsKeptByteForByte) {
  const auto reader = MakeMessagesReader();
  ASSERT_TRUE(reader->OnBody(R"({"content": [ {"type":"text", "text":"\u00e9"} ],
      "stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}})"));
  EXPECT_EQ(reader->Take().messages.front().json,
            R"({"role":"assistant","content":[ {"type":"text", "text":"\u00e9"} ]})");
}

TEST(MessagesReaderTest, AnAnswerThatSaysNothingIsNoMessage) {
  const auto reader = MakeMessagesReader();
  ASSERT_TRUE(reader->OnBody(R"({"content":[],"stop_reason":"end_turn"})"));
  EXPECT_TRUE(reader->Take().messages.empty());
}

TEST(MessagesReaderTest, WhatBreaksOrIsRefusedIsNoAnswer) {
  EXPECT_EQ(MakeMessagesReader()->OnEvent(R"({"type":"error","error":{}})"), State::kBroken);
  EXPECT_EQ(MakeMessagesReader()->OnEvent(
                R"({"type":"message_delta","delta":{"stop_reason":"refusal"}})"),
            State::kBroken);
  EXPECT_EQ(MakeMessagesReader()->OnEvent(R"({"type":"message_stop"})"), State::kBroken);
  EXPECT_FALSE(MakeMessagesReader()->OnBody(R"({"content":[],"stop_reason":"refusal"})"));
  EXPECT_FALSE(MakeMessagesReader()->OnBody(R"({"type":"error"})"));
}

}  // namespace
}  // namespace kvgate::session::answer
