#include "gateway/local/parsed_stream.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>

#include "gateway/dialect/reply/reply_choice.h"

namespace kvgate::local {
namespace {

using dialect::form::CompletionEvent;
using dialect::form::DeltaEvent;
using dialect::form::FinishEvent;
using dialect::form::FinishReason;

// Yields one scripted event per Take; after Cancel it ends with that error.
class ScriptedStream final : public EventStream {
 public:
  explicit ScriptedStream(std::deque<CompletionEvent> events) : events_(std::move(events)) {}
  std::vector<CompletionEvent> Take() override {
    if (events_.empty()) return {};
    CompletionEvent event = std::move(events_.front());
    events_.pop_front();
    return {std::move(event)};
  }
  void Cancel() override {
    events_.clear();
    events_.emplace_back(
        FinishEvent{.error = MakeError(ErrorCode::kCancelled, "test", "cancelled")});
  }

 private:
  std::deque<CompletionEvent> events_;
};

constexpr const char* kCall = "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}</tool_call>";

struct Answer {
  dialect::reply::ReplyChoice choice;
  FinishEvent finish;
};

Answer Play(std::deque<CompletionEvent> events, ParsedStreamOptions options) {
  const auto stream = ParseStream(std::make_unique<ScriptedStream>(std::move(events)), options);
  Answer answer;
  for (int i = 0; i < 100; ++i) {
    for (const CompletionEvent& event : stream->Take()) {
      if (const auto* delta = std::get_if<DeltaEvent>(&event)) answer.choice.Add(*delta);
      if (const auto* finish = std::get_if<FinishEvent>(&event)) answer.finish = *finish;
    }
  }
  return answer;
}

ParsedStreamOptions WithCalls() { return {.parser = {.family = "hermes", .calls = true}}; }

TEST(ParsedStreamTest, TextBecomesReasoningTextAndCalls) {
  std::deque<CompletionEvent> events;
  for (const char byte : std::string("<think>hm</think>Look.") + kCall) {
    events.emplace_back(DeltaEvent{.text = std::string(1, byte)});
  }
  events.emplace_back(FinishEvent{.stats = {.num_output_tokens = 50}});
  const Answer answer = Play(std::move(events), WithCalls());
  const dialect::form::Message message = answer.choice.ToMessage();
  EXPECT_EQ(message.reasoning, "hm");
  EXPECT_EQ(message.content, "Look.");
  ASSERT_EQ(message.tool_calls.size(), 1u);
  EXPECT_EQ(message.tool_calls[0].arguments, "{\"a\":1}");
  EXPECT_TRUE(message.tool_calls[0].id.starts_with("call_"));
  EXPECT_EQ(message.tool_calls[0].id.size(), 29u);
  EXPECT_EQ(answer.finish.reason, FinishReason::kToolCalls);
  EXPECT_GT(answer.finish.stats.num_reasoning_tokens, 0);
}

TEST(ParsedStreamTest, ACallThatWasCutShortStillEndsByLength) {
  const Answer answer = Play({DeltaEvent{.text = std::string(kCall).substr(0, 45)},
                              FinishEvent{.reason = FinishReason::kLength}},
                             WithCalls());
  EXPECT_EQ(answer.choice.ToMessage().tool_calls.size(), 1u);
  EXPECT_EQ(answer.finish.reason, FinishReason::kLength);
}

TEST(ParsedStreamTest, WithoutParallelCallsTheAnswerEndsBehindTheFirst) {
  ParsedStreamOptions options = WithCalls();
  options.parallel = false;
  const Answer answer = Play({DeltaEvent{.text = std::string(kCall) + kCall + "more"},
                              DeltaEvent{.text = "and more"}, FinishEvent{}},
                             options);
  EXPECT_EQ(answer.choice.ToMessage().tool_calls.size(), 1u);
  EXPECT_EQ(answer.choice.ToMessage().content, "");
  EXPECT_FALSE(answer.finish.error);
  EXPECT_EQ(answer.finish.reason, FinishReason::kToolCalls);
}

TEST(ParsedStreamTest, IdsHaveTheFormThatTheFamilyWants) {
  ParsedStreamOptions options = WithCalls();
  options.id_length = 9;
  const Answer answer = Play({DeltaEvent{.text = kCall}, FinishEvent{}}, options);
  EXPECT_EQ(answer.choice.ToMessage().tool_calls[0].id.size(), 9u);
}

TEST(ParsedStreamTest, LogProbabilitiesGoWithTheFirstDelta) {
  DeltaEvent delta{.text = "<tool_"};
  delta.tokens.push_back({.token = {.bytes = "x", .logprob = -1}, .top = {}});
  const Answer answer = Play({delta, FinishEvent{}}, WithCalls());
  EXPECT_EQ(answer.choice.tokens().size(), 1u);
  EXPECT_EQ(answer.choice.Text(dialect::form::DeltaKind::kText), "<tool_");
}

TEST(ParsedStreamTest, CallsOfCustomToolsAreTheirInput) {
  ParsedStreamOptions options = WithCalls();
  const std::vector<dialect::form::Tool> tools = {
      {.name = "agents__say", .is_custom = true, .space = "agents"}};
  options.namer = dialect::form::CallNamer(tools);
  const std::string text =
      "<tool_call>{\"name\":\"agents__say\",\"arguments\":{\"input\": \"a\\nb\"}}</tool_call>";
  std::deque<CompletionEvent> events;
  for (const char byte : text) events.emplace_back(DeltaEvent{.text = std::string(1, byte)});
  events.emplace_back(FinishEvent{});
  const Answer answer = Play(std::move(events), options);
  ASSERT_EQ(answer.choice.blocks().size(), 1u);
  const dialect::reply::ReplyBlock& call = answer.choice.blocks().front();
  EXPECT_EQ(call.name, "say");
  EXPECT_EQ(call.space, "agents");
  EXPECT_EQ(call.text, "a\nb");
  EXPECT_EQ(answer.finish.reason, FinishReason::kToolCalls);
  // The next turn's prompt has the call in this form.
  const dialect::form::Message message = answer.choice.ToMessage();
  EXPECT_EQ(message.tool_calls[0].name, "agents__say");
  EXPECT_EQ(message.tool_calls[0].arguments, R"({"input": "a\nb"})");
}

}  // namespace
}  // namespace kvgate::local
