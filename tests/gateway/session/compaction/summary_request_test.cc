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

}  // namespace
}  // namespace kvgate::session::compaction
