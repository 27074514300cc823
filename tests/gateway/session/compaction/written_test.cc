#include "gateway/session/compaction/written.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kvgate::session::compaction {
namespace {

using nlohmann::json;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::string_view kResponse =
    R"({"id":"resp_1","object":"response","created_at":7,"status":"completed","model":"m",)"
    R"("output":[],"usage":{"input_tokens":9,"output_tokens":3,"total_tokens":12}})";
constexpr std::string_view kMessage =
    R"({"id":"msg_1","type":"message","role":"assistant","model":"m","stop_reason":"end_turn",)"
    R"("content":[],"usage":{"input_tokens":9,"output_tokens":3,"cache_read_input_tokens":4}})";

std::string Write(Surface surface, bool streams, std::string_view body = "{}") {
  const bool is_messages = surface == Surface::kSummarize || surface == Surface::kPaused;
  return WriteAnswer({.dialect = is_messages ? Dialect::kMessages : Dialect::kResponses,
                      .request_id = "1",
                      .summary = "A summary.",
                      .sealed = "kvg1.x",
                      .answer = std::string(is_messages ? kMessage : kResponse)},
                     {.surface = surface, .streams = streams, .body = body});
}

TEST(WrittenTest, APathsAnswerHasTheUsersWordsInFront) {
  const json answer = json::parse(
      Write(Surface::kCompact, false,
            R"({"input":[{"role":"developer","content":"d"},{"role":"user","content":"a"},)"
            R"({"role":"assistant","content":"b"},{"id":"m1","type":"message","role":"user",)"
            R"("content":[{"type":"input_text","text":"c"}]}]})"));
  EXPECT_EQ(answer["object"], "response.compaction");
  EXPECT_EQ(answer["created_at"], 7);
  EXPECT_EQ(answer["usage"]["total_tokens"], 12);
  ASSERT_EQ(answer["output"].size(), 3u);
  EXPECT_EQ(answer["output"][0]["content"][0]["text"], "a");
  EXPECT_EQ(answer["output"][1]["id"], "m1");
  EXPECT_EQ(answer["output"][2]["encrypted_content"], "kvg1.x");
  const json text = json::parse(Write(Surface::kCompact, false, R"({"input":"a"})"));
  EXPECT_EQ(text["output"][0]["content"][0]["text"], "a");
}

TEST(WrittenTest, AStreamOfResponsesSaysTheSameAsABody) {
  const json whole = json::parse(Write(Surface::kTrigger, false));
  EXPECT_EQ(whole["id"], "resp_1");
  EXPECT_EQ(whole["output"].size(), 1u);
  EXPECT_EQ(whole["output"][0]["type"], "compaction");
  EXPECT_EQ(whole["store"], false);
  const std::string events = Write(Surface::kTrigger, true);
  EXPECT_THAT(events, StartsWith("event: response.created\n"));
  const size_t last = events.rfind("data: ");
  EXPECT_EQ(json::parse(events.substr(last + 6))["response"], whole);
}

TEST(WrittenTest, AMessageHasTheBlockAloneAndWhatItTookInTheIterations) {
  for (const Surface surface : {Surface::kSummarize, Surface::kPaused}) {
    const json message = json::parse(Write(surface, false));
    EXPECT_EQ(message["id"], "msg_1");
    EXPECT_EQ(message["stop_reason"], "compaction");
    ASSERT_EQ(message["content"].size(), 1u);
    EXPECT_EQ(message["content"][0]["content"], "A summary.");
    EXPECT_EQ(message["usage"]["output_tokens"], 0);
    EXPECT_EQ(message["usage"]["iterations"][0]["cache_read_input_tokens"], 4);
    const std::string events = Write(surface, true);
    EXPECT_THAT(events, StartsWith("event: message_start\n"));
    EXPECT_THAT(events, EndsWith("{\"type\":\"message_stop\"}\n\n"));
  }
}

TEST(WrittenTest, OnDemandItIsSignedAndInOneEvent) {
  const json message = json::parse(Write(Surface::kSummarize, false));
  EXPECT_EQ(message["content"][0]["signature"], "kvg1.x");
  EXPECT_TRUE(message["content"][0]["encrypted_content"].is_null());
  EXPECT_THAT(Write(Surface::kSummarize, true), Not(HasSubstr("compaction_delta")));
  const json paused = json::parse(Write(Surface::kPaused, false));
  EXPECT_EQ(paused["content"][0]["encrypted_content"], "kvg1.x");
  EXPECT_THAT(Write(Surface::kPaused, true), HasSubstr("compaction_delta"));
}

}  // namespace
}  // namespace kvgate::session::compaction
