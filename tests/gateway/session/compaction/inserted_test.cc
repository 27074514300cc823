#include "gateway/session/compaction/inserted.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kvgate::session::compaction {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::shared_ptr<const Insertion> Of(Dialect dialect) {
  return std::make_shared<const Insertion>(Insertion{
      .dialect = dialect,
      .compaction =
          Compaction{.dialect = dialect,
                     .request_id = "1",
                     .summary = "A summary.",
                     .sealed = "kvg1.x",
                     .answer = R"({"usage":{"input_tokens":5,"cache_read_input_tokens":4}})"}});
}

constexpr std::string_view kResponses =
    "event: response.created\n"
    R"(data: {"type":"response.created","sequence_number":0,"response":{"output":[]}})"
    "\n\n: ping\n\n"
    "event: response.output_item.added\n"
    R"(data: {"type":"response.output_item.added","sequence_number":1,"output_index":0})"
    "\n\nevent: response.output_text.delta\r\n"
    R"(data: {"type":"response.output_text.delta","sequence_number":2,"output_index":0,"delta":""})"
    "\r\n\r\nevent: response.completed\n"
    R"(data: {"type":"response.completed","sequence_number":3,"response":{"output":[{"id":"m"}]}})"
    "\n\n";
constexpr std::string_view kMessages =
    "event: message_start\n"
    R"(data: {"type":"message_start","message":{"content":[]}})"
    "\n\nevent: content_block_start\n"
    R"(data: {"type":"content_block_start","index":0,"content_block":{"type":"text"}})"
    "\n\nevent: message_delta\n"
    R"(data: {"type":"message_delta","delta":{},"usage":{"input_tokens":5,"output_tokens":2}})"
    "\n\n";

std::vector<json> DataOf(std::string_view events) {
  std::vector<json> data;
  for (size_t at = events.find("data: "); at != std::string_view::npos;
       at = events.find("data: ", at + 1)) {
    data.push_back(json::parse(events.substr(at + 6, events.find('\n', at) - at - 6)));
  }
  return data;
}

std::string Through(Dialect dialect, std::string_view events, size_t piece) {
  Inserter inserter(Of(dialect));
  std::string out;
  for (size_t at = 0; at < events.size(); at += piece) {
    out += inserter.TakePiece(events.substr(at, piece));
  }
  return out + inserter.Finish();
}

TEST(InsertedTest, EventsOfResponsesAreNumberedAnew) {
  const std::string out = Through(Dialect::kResponses, kResponses, kResponses.size());
  const std::vector<json> data = DataOf(out);
  ASSERT_EQ(data.size(), 6u) << out;
  for (size_t i = 0; i < data.size(); ++i) EXPECT_EQ(data[i]["sequence_number"], i);
  EXPECT_EQ(data[1]["type"], "response.output_item.added");
  EXPECT_EQ(data[1]["item"]["encrypted_content"], "kvg1.x");
  EXPECT_EQ(data[2]["type"], "response.output_item.done");
  EXPECT_EQ(data[3]["output_index"], 1);
  EXPECT_EQ(data[4]["output_index"], 1);
  EXPECT_EQ(data[5]["response"]["output"][0]["type"], "compaction");
  EXPECT_EQ(data[5]["response"]["output"][1]["id"], "m");
  EXPECT_THAT(out, HasSubstr(": ping\n\n"));
}

TEST(InsertedTest, AFailureHasNoItemInFront) {
  constexpr std::string_view kFailed =
      "event: response.created\n"
      R"(data: {"type":"response.created","sequence_number":0,"response":{}})"
      "\n\nevent: response.failed\n"
      R"(data: {"type":"response.failed","sequence_number":1,"response":{"output":[]}})"
      "\n\n";
  EXPECT_EQ(DataOf(Through(Dialect::kResponses, kFailed, kFailed.size())), DataOf(kFailed));
}

TEST(InsertedTest, BlocksOfMessagesMoveOn) {
  const std::vector<json> data = DataOf(Through(Dialect::kMessages, kMessages, 7));
  ASSERT_EQ(data.size(), 6u);
  EXPECT_EQ(data[1]["content_block"]["type"], "compaction");
  EXPECT_EQ(data[2]["delta"]["content"], "A summary.");
  EXPECT_EQ(data[2]["delta"]["encrypted_content"], "kvg1.x");
  EXPECT_EQ(data[3]["type"], "content_block_stop");
  EXPECT_EQ(data[4]["index"], 1);
  const json& calls = data[5]["usage"]["iterations"];
  EXPECT_EQ(calls[0]["type"], "compaction");
  EXPECT_EQ(calls[0]["cache_read_input_tokens"], 4);
  EXPECT_EQ(calls[1]["output_tokens"], 2);
}

TEST(InsertedTest, APiecesLengthChangesNothing) {
  for (const auto& [dialect, events] :
       {std::pair(Dialect::kResponses, kResponses), std::pair(Dialect::kMessages, kMessages)}) {
    const std::string whole = Through(dialect, events, events.size());
    for (size_t piece = 1; piece < 40; ++piece) {
      EXPECT_EQ(Through(dialect, events, piece), whole) << piece;
    }
  }
}

TEST(InsertedTest, WhatIsNoEventPassesAsItIs) {
  for (const char* text : {"", "data: [DONE]\n\n", ": ping\n\n", "data: {\n\n", "no end"}) {
    EXPECT_EQ(Through(Dialect::kResponses, text, 100), text);
  }
}

TEST(InsertedTest, ABodyHasItInFront) {
  const json responses = json::parse(
      Inserter(Of(Dialect::kResponses)).TakeBody(R"({"output":[{"id":"m"}],"usage":{}})"));
  EXPECT_EQ(responses["output"][0]["type"], "compaction");
  EXPECT_EQ(responses["output"][1]["id"], "m");
  const json messages = json::parse(
      Inserter(Of(Dialect::kMessages)).TakeBody(R"({"content":[{"type":"text"}],"usage":{}})"));
  EXPECT_EQ(messages["content"][0]["content"], "A summary.");
  EXPECT_EQ(messages["usage"]["iterations"].size(), 2u);
  for (const char* other : {"", "[]", "{}", R"({"output":7})"}) {
    EXPECT_EQ(Inserter(Of(Dialect::kResponses)).TakeBody(other), other);
  }
}

Inserter Edited(std::vector<AppliedEdit> edits) {
  return Inserter(std::make_shared<const Insertion>(
      Insertion{.dialect = Dialect::kMessages, .edits = std::move(edits)}));
}

TEST(InsertedTest, AnAnswerSaysWhatWasCleared) {
  Inserter inserter = Edited({{kClearThinking, 2, 300}, {kClearToolUses, 5, 4000}});
  const json wanted = json::parse(R"({"applied_edits":[
      {"type":"clear_thinking_20251015","cleared_thinking_turns":2,"cleared_input_tokens":300},
      {"type":"clear_tool_uses_20250919","cleared_tool_uses":5,"cleared_input_tokens":4000}]})");
  EXPECT_EQ(json::parse(inserter.TakeBody(R"({"content":[],"usage":{}})"))["context_management"],
            wanted);
  std::string out = inserter.TakePiece(kMessages);
  out += inserter.Finish();
  const std::vector<json> data = DataOf(out);
  ASSERT_EQ(data.size(), 3u);
  EXPECT_EQ(data[2]["context_management"], wanted);
  // The events in front of it are as they were.
  EXPECT_TRUE(out.starts_with(kMessages.substr(0, kMessages.find("event: message_delta"))));
  EXPECT_EQ(json::parse(Edited({}).TakeBody(R"({"content":[]})"))["context_management"],
            json::parse(R"({"applied_edits":[]})"));
}

TEST(InsertedTest, ACountSaysWhatItWas) {
  const Inserter inserter = Edited({{kClearThinking, 2, 300}, {kClearToolUses, 5, 4000}});
  EXPECT_EQ(json::parse(inserter.TakeBody(R"({"input_tokens":700})")),
            json::parse(R"({"input_tokens":700,"context_management":
                            {"original_input_tokens":5000}})"));
}

TEST(InsertedTest, WhatTheUpstreamSaysOfItsEditsStays) {
  const char* const body = R"({"content":[],"context_management":{"applied_edits":[1]}})";
  EXPECT_EQ(Edited({{kClearToolUses, 5, 4000}}).TakeBody(body), body);
  const char* const error = R"({"type":"error","error":{"type":"api_error"}})";
  EXPECT_EQ(Edited({{kClearToolUses, 5, 4000}}).TakeBody(error), error);
}

TEST(InsertedTest, AnEventWithoutAnEndIsNotKept) {
  Inserter inserter(Of(Dialect::kResponses));
  const std::string piece(size_t{8} << 20, 'x');
  size_t num_sent = 0;
  for (int i = 0; i < 9; ++i) num_sent += inserter.TakePiece(piece).size();
  EXPECT_EQ(num_sent, 9 * piece.size());
}

}  // namespace
}  // namespace kvgate::session::compaction
