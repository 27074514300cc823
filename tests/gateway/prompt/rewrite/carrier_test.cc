#include "gateway/prompt/rewrite/carrier.h"

#include <gtest/gtest.h>

#include "gateway/prompt/parse/segment_memo.h"
#include "tests/gateway/prompt/conversations.h"

namespace kvgate::prompt::rewrite {
namespace {

using namespace test;  // NOLINT: the helpers of these tests

// Returns the front of the body up to where the carrier takes lines, with a '|' if it is a tool
// result.
std::string FrontOf(const Request& request) {
  parse::SegmentMemo memo(100);
  const std::string body = request.Body();
  const Result<parse::RequestLayout> layout =
      parse::ReadRequestLayout(request.endpoint, body, memo);
  Draft draft = MakeDraft(body, *layout, nullptr, 0);
  const Carrier carrier = NewestCarrier(draft);
  if (carrier.segment == nullptr) return "";
  return body.substr(0, carrier.at) + (carrier.is_result ? "|" : "");
}
bool IsAt(const Request& request, std::string_view text) {
  return FrontOf(request).ends_with(text);
}

std::string Result(std::string_view content) {
  return R"({"type":"tool_result","tool_use_id":"c","content":)" + std::string(content) + "}";
}
std::string Output(std::string_view output) {
  return R"({"type":"function_call_output","call_id":"c","output":)" + std::string(output) + "}";
}
std::string ToolTurn(std::string_view content) {
  return R"({"role":"tool","tool_call_id":"c","content":)" + std::string(content) + "}";
}
const std::string kImage =
    R"({"type":"image","source":{"type":"url","url":"https://example.com/a.png"}})";

TEST(CarrierTest, TheNewestTextOfAUserIsOne) {
  EXPECT_TRUE(
      IsAt({.turns = {Turn("user", "one"), Turn("assistant", "a"), Turn("user", "two")}}, "two"));
  EXPECT_TRUE(IsAt({.turns = {TurnOf("user", {Block("one"), Block("two"), kImage})}}, "two"));
  EXPECT_TRUE(IsAt({.turns = {Turn("user", "one"), Turn("assistant", "{")}}, "one"));
  EXPECT_TRUE(IsAt({.endpoint = Endpoint::kResponses, .turns = {Turn("user", "one")}}, "one"));
  // Text that its caller takes back by itself is not a carrier.
  EXPECT_TRUE(IsAt({.turns = {TurnOf("user", {Block("one"), Block(" "),
                                              Block("<system-reminder>a</system-reminder>")})}},
                   "one"));
  EXPECT_TRUE(IsAt({.turns = {Turn("user", "2026-11-22")}}, "2026-11-22"));
}

TEST(CarrierTest, ANoticeOfUnknownTagIsTheLastResort) {
  const std::string notice = Block("<a-notice>on</a-notice>");
  EXPECT_TRUE(IsAt({.turns = {TurnOf("user", {Block("one"), notice})}}, "one"));
  EXPECT_TRUE(IsAt({.turns = {TurnOf("user", {Block("one"), notice, Block("two")})}}, "two"));
  EXPECT_TRUE(IsAt({.turns = {TurnOf("user", {Result("\"x\""), notice})}}, "\"x|"));
  EXPECT_TRUE(IsAt({.turns = {TurnOf("user", {kImage, notice})}}, "</a-notice>"));
  EXPECT_TRUE(IsAt({.turns = {TurnOf("user", {notice})}}, "</a-notice>")) << "it is the message";
}

TEST(CarrierTest, OfATurnOfResultsTheLastTextIsOne) {
  EXPECT_TRUE(IsAt({.turns = {Turn("user", "one"), Turn("assistant", "a"),
                              TurnOf("user", {Result("\"x\""), Result("\"y\"")})}},
                   "\"y|"));
  EXPECT_TRUE(
      IsAt({.turns = {TurnOf("user", {Result("[" + Block("x") + "," + kImage + "]")})}}, "\"x|"));
  EXPECT_TRUE(
      IsAt({.turns = {TurnOf("user", {Result("\"x\""), Result("[" + kImage + "]")})}}, "\"x|"));
  EXPECT_TRUE(IsAt(
      {.endpoint = Endpoint::kChatCompletions, .turns = {ToolTurn("\"x\""), ToolTurn("\"y\"")}},
      "\"y|"));
  EXPECT_TRUE(
      IsAt({.endpoint = Endpoint::kChatCompletions, .turns = {ToolTurn("[" + Block("x") + "]")}},
           "\"x|"));
  EXPECT_TRUE(IsAt({.endpoint = Endpoint::kResponses, .turns = {Output("\"x\"")}}, "\"x|"));
  EXPECT_TRUE(IsAt({.endpoint = Endpoint::kResponses,
                    .turns = {Output(R"([{"type":"input_text","text":"x"}])")}},
                   "\"x|"));
}

TEST(CarrierTest, AUsersTextBehindResultsIsBetter) {
  EXPECT_TRUE(IsAt({.turns = {TurnOf("user", {Result("\"x\""), Block("stop")})}}, "stop"));
  EXPECT_TRUE(IsAt(
      {.turns = {TurnOf("user", {Result("\"x\""), Block("<system-reminder>a</system-reminder>")})}},
      "\"x|"));
  EXPECT_TRUE(IsAt(
      {.endpoint = Endpoint::kChatCompletions, .turns = {ToolTurn("\"x\""), Turn("user", "stop")}},
      "stop"));
}

TEST(CarrierTest, ThereMayBeNone) {
  EXPECT_EQ(FrontOf({.turns = {TurnOf("user", {kImage})}}), "");
  EXPECT_EQ(FrontOf({.turns = {TurnOf("user", {Result("[" + kImage + "]")})}}), "");
  EXPECT_EQ(FrontOf({.system = "Be brief.", .turns = {Turn("user", "")}}), "");
  EXPECT_EQ(FrontOf({.turns = {Turn("assistant", "a")}}), "");
}

}  // namespace
}  // namespace kvgate::prompt::rewrite
