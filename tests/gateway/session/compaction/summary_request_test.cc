#include "gateway/session/compaction/summary_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kvgate::session::compaction {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

json Written(Dialect dialect, std::string_view body, std::string_view instructions = {}) {
  const auto written = WriteRequest(
      {.dialect = dialect, .body = body, .instructions = instructions, .tokens_max = 100});
  EXPECT_TRUE(written) << written.error().ToString();
  return written ? json::parse(*written) : json();
}

TEST(SummaryRequestTest, ItIsTheCallersRequestWithOneMessageMore) {
  const json sent = Written(
      Dialect::kResponses,
      R"({"model":"m","instructions":"rules","tools":[{"name":"f"}],"stream":true,"store":true,)"
      R"("context_management":[{"type":"compaction"}],"reasoning":{"effort":"low"},)"
      R"("input":[{"role":"user","content":"a"},{"type":"compaction_trigger"}]})");
  EXPECT_EQ(sent["instructions"], "rules");
  EXPECT_EQ(sent["tools"], json::array({{{"name", "f"}}}));
  EXPECT_EQ(sent["reasoning"]["effort"], "low");
  EXPECT_EQ(sent["stream"], false);
  EXPECT_EQ(sent["store"], false);
  EXPECT_FALSE(sent.contains("context_management"));
  ASSERT_EQ(sent["input"].size(), 2u);
  EXPECT_EQ(sent["input"][0]["content"], "a");
  EXPECT_THAT(sent["input"][1]["content"].get<std::string>(), HasSubstr("Summarise everything"));
}

TEST(SummaryRequestTest, TheCallersLimitAndInstructionsHold) {
  const std::string body =
      R"({"model":"m","max_tokens":700,"compaction":{"type":"summarize"},)"
      R"("messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]})";
  const json sent = Written(Dialect::kMessages, body, "Keep {{names}}.");
  EXPECT_EQ(sent["max_tokens"], 700);
  EXPECT_FALSE(sent.contains("compaction"));
  EXPECT_THAT(sent["messages"][2]["content"].dump(), HasSubstr("Keep {{names}}."));
  const json thinking =
      Written(Dialect::kMessages,
              R"({"model":"m","max_tokens":700,"thinking":{"type":"enabled","budget_tokens":500},)"
              R"("messages":[{"role":"user","content":"a"}]})");
  EXPECT_EQ(thinking["max_tokens"], 700) << "what is thought counts in it";
}

TEST(SummaryRequestTest, WhatIsChainedIsSummarisedWhereItIsKept) {
  const json sent =
      Written(Dialect::kResponses, R"({"model":"m","previous_response_id":"r","input":"more"})");
  EXPECT_EQ(sent["previous_response_id"], "r");
  ASSERT_EQ(sent["input"].size(), 2u);
  EXPECT_EQ(sent["input"][0]["content"], "more");
  EXPECT_EQ(sent["store"], false);
}

TEST(SummaryRequestTest, NothingIsNotSummarised) {
  for (const auto& [dialect, body, field] :
       {std::tuple(Dialect::kResponses, R"({"input":[]})", "input"),
        std::tuple(Dialect::kResponses, R"({"input":[{"type":"compaction_trigger"}]})", "input"),
        std::tuple(Dialect::kMessages, R"({"messages":[]})", "messages")}) {
    const auto none = WriteRequest({.dialect = dialect, .body = body, .tokens_max = 100});
    ASSERT_FALSE(none) << body;
    EXPECT_EQ(none.error().field, field);
  }
}

constexpr std::string_view kResponse =
    R"({"id":"resp_1","object":"response","created_at":7,"status":"completed","model":"m",)"
    R"("output":[{"type":"message","role":"assistant","content":[{"type":"output_text",)"
    R"("text":" A summary. "}]}],"usage":{"input_tokens":9,"output_tokens":3,"total_tokens":12}})";
constexpr std::string_view kMessage =
    R"({"id":"msg_1","type":"message","role":"assistant","model":"m","stop_reason":"end_turn",)"
    R"("content":[{"type":"text","text":"A summary."}],"usage":{"input_tokens":9,)"
    R"("output_tokens":3,"cache_read_input_tokens":4}})";

TEST(SummaryRequestTest, TheSummaryIsReadOfTheAnswer) {
  for (const auto& [dialect, answer] :
       {std::pair(Dialect::kResponses, kResponse), std::pair(Dialect::kMessages, kMessage)}) {
    const auto summary = ReadSummary(dialect, answer);
    ASSERT_TRUE(summary) << summary.error().ToString();
    EXPECT_EQ(summary->text, "A summary.");
    EXPECT_EQ(summary->tokens.output, 3);
  }
  EXPECT_FALSE(ReadSummary(Dialect::kResponses, R"({"status":"incomplete","output":[]})"));
}

compaction::Written Of(Surface surface, bool streams, std::string_view body = "{}") {
  return {.surface = surface,
          .streams = streams,
          .request_id = "1",
          .body = body,
          .answer = surface == Surface::kSummarize ? kMessage : kResponse,
          .summary = "A summary.",
          .sealed = "kvg1.x"};
}

TEST(SummaryRequestTest, APathsAnswerHasTheUsersWordsInFront) {
  const json answer = json::parse(WriteAnswer(
      Of(Surface::kCompact, false,
         R"({"input":[{"role":"developer","content":"d"},{"role":"user","content":"a"},)"
         R"({"role":"assistant","content":"b"},{"id":"m1","type":"message","role":"user",)"
         R"("content":[{"type":"input_text","text":"c"}]}]})")));
  EXPECT_EQ(answer["object"], "response.compaction");
  EXPECT_EQ(answer["created_at"], 7);
  EXPECT_EQ(answer["usage"]["total_tokens"], 12);
  ASSERT_EQ(answer["output"].size(), 3u);
  EXPECT_EQ(answer["output"][0]["content"][0]["text"], "a");
  EXPECT_EQ(answer["output"][1]["id"], "m1");
  EXPECT_EQ(answer["output"][2]["encrypted_content"], "kvg1.x");
  const json text = json::parse(WriteAnswer(Of(Surface::kCompact, false, R"({"input":"a"})")));
  EXPECT_EQ(text["output"][0]["content"][0]["text"], "a");
}

TEST(SummaryRequestTest, AStreamSaysTheSameAsABody) {
  const json whole = json::parse(WriteAnswer(Of(Surface::kTrigger, false)));
  EXPECT_EQ(whole["output"].size(), 1u);
  EXPECT_EQ(whole["output"][0]["type"], "compaction");
  EXPECT_EQ(whole["store"], false);
  const std::string events = WriteAnswer(Of(Surface::kTrigger, true));
  EXPECT_THAT(events, StartsWith("event: response.created\n"));
  const size_t last = events.rfind("data: ");
  EXPECT_EQ(json::parse(events.substr(last + 6))["response"], whole);

  const json message = json::parse(WriteAnswer(Of(Surface::kSummarize, false)));
  EXPECT_EQ(message["stop_reason"], "compaction");
  EXPECT_EQ(message["content"][0]["signature"], "kvg1.x");
  EXPECT_EQ(message["usage"]["output_tokens"], 0);
  EXPECT_EQ(message["usage"]["iterations"][0]["cache_read_input_tokens"], 4);
  const std::string stream = WriteAnswer(Of(Surface::kSummarize, true));
  EXPECT_THAT(stream, HasSubstr(message["content"][0].dump().substr(1, 20)));
  EXPECT_THAT(stream, ::testing::EndsWith("{\"type\":\"message_stop\"}\n\n"));
}

}  // namespace
}  // namespace kvgate::session::compaction
