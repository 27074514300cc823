#include "gateway/ledger/reply/reply_scanner.h"

#include <gtest/gtest.h>

#include <string>

namespace kvgate::ledger::reply {
namespace {

ReplyScanner Scan(std::string_view json, size_t piece_bytes = 1u << 20) {
  ReplyScanner scanner;
  scanner.Reset();
  for (size_t at = 0; at < json.size(); at += piece_bytes) {
    scanner.Feed(json.substr(at, piece_bytes));
  }
  return scanner;
}

constexpr std::string_view kChat = R"({
  "id": "c1", "object": "chat.completion", "model": "gpt-6-sol", "service_tier": "default",
  "choices": [{"index": 0, "message": {"role": "assistant",
     "content": "say \"usage\": {\"prompt_tokens\": 9} \\", "usage": {"prompt_tokens": 77}}}],
  "usage": {"prompt_tokens": 2006, "completion_tokens": 3.0e2, "total_tokens": 2306,
    "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0, "cache_write_tokens": 64},
    "completion_tokens_details": {"reasoning_tokens": 128}, "x": {"cached_tokens": 5}},
  "error": null})";

void ExpectChat(const ReplyScanner& scanner) {
  ASSERT_TRUE(scanner.complete());
  const ReplyFacts& facts = scanner.facts();
  EXPECT_EQ(facts.model.view(), "gpt-6-sol");
  EXPECT_EQ(facts.service_tier.view(), "default");
  EXPECT_FALSE(facts.error);
  EXPECT_EQ(facts.usage.Get(UsageField::kPromptTokens), 2006);
  EXPECT_EQ(facts.usage.Get(UsageField::kCompletionTokens), 300);
  EXPECT_EQ(facts.usage.Get(UsageField::kTotalTokens), 2306);
  EXPECT_EQ(facts.usage.Get(UsageField::kPromptCached), 1920);
  EXPECT_EQ(facts.usage.Get(UsageField::kPromptCacheWrite), 64);
  EXPECT_EQ(facts.usage.Get(UsageField::kCompletionReasoning), 128);
  EXPECT_EQ(facts.usage.Get(UsageField::kInputTokens), std::nullopt);
}

TEST(ReplyScannerTest, FindsCountsWhereTheyMeanSomethingAndNowhereElse) { ExpectChat(Scan(kChat)); }

TEST(ReplyScannerTest, PiecesOfAnySizeGiveTheSame) {
  for (size_t size = 1; size < 40; ++size) {
    SCOPED_TRACE(size);
    ExpectChat(Scan(kChat, size));
  }
}

TEST(ReplyScannerTest, LooksIntoResponseAndMessage) {
  const ReplyScanner response =
      Scan(R"({"type":"response.completed","response":{"model":"m","error":null,)"
           R"("usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":4},)"
           R"("output_tokens_details":{"reasoning_tokens":2}}}})");
  EXPECT_EQ(response.facts().type.view(), "response.completed");
  EXPECT_EQ(response.facts().usage.Get(UsageField::kInputCached), 4);
  EXPECT_EQ(response.facts().usage.Get(UsageField::kOutputReasoning), 2);
  EXPECT_FALSE(response.facts().error);
  const ReplyScanner message = Scan(
      R"({"type":"message_start","message":{"model":"claude-opus-5","usage":{"input_tokens":3,)"
      R"("cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":2},)"
      R"("service_tier":"batch","output_tokens":1}}})");
  EXPECT_EQ(message.facts().model.view(), "claude-opus-5");
  EXPECT_EQ(message.facts().service_tier.view(), "batch");
  EXPECT_EQ(message.facts().usage.Get(UsageField::kCacheCreation5m), 1);
  EXPECT_EQ(message.facts().usage.Get(UsageField::kCacheCreation1h), 2);
}

TEST(ReplyScannerTest, SeesErrorsThatAreThere) {
  EXPECT_TRUE(Scan(R"({"error":{"message":"no"}})").facts().error);
  EXPECT_TRUE(Scan(R"({"response":{"error":{"code":"x"}}})").facts().error);
  EXPECT_TRUE(Scan(R"({"error":"text"})").facts().error);
  EXPECT_FALSE(Scan(R"({"error":false})").facts().error);
}

TEST(ReplyScannerTest, WhatIsNoObjectOrIsCutIsNotComplete) {
  for (const char* text : {"", "[DONE]", "[{}]", "12", "{", R"({"usage":{"prompt_tokens":1})",
                           R"({"usage":{"prompt_tokens":1}]})", R"({"a" 1})", R"({"a":})", "}"}) {
    EXPECT_FALSE(Scan(text).complete()) << text;
  }
  EXPECT_TRUE(Scan("{}").complete());
  EXPECT_TRUE(Scan(" \n{ }\n trailing").complete());
}

TEST(ReplyScannerTest, CountsOfOtherTypesAreNone) {
  const ReplyScanner scanner =
      Scan(R"({"usage":{"prompt_tokens":"5","completion_tokens":[6],"total_tokens":{"a":7},)"
           R"("input_tokens":1.5,"output_tokens":-4,"prompt_cache_hit_tokens":true,)"
           R"("prompt_cache_miss_tokens":99999999999999999999999}})");
  EXPECT_TRUE(scanner.complete());
  EXPECT_TRUE(scanner.facts().usage.empty());
}

TEST(ReplyScannerTest, NullUsageAndARepeatedKeyAreReadAsJsonReadersDo) {
  EXPECT_TRUE(Scan(R"({"usage":null})").facts().usage.empty());
  const ReplyScanner twice = Scan(R"({"usage":{"prompt_tokens":5,"prompt_tokens":6}})");
  EXPECT_EQ(twice.facts().usage.Get(UsageField::kPromptTokens), 6);
}

TEST(ReplyScannerTest, DepthAndLengthCostNothing) {
  std::string json = R"({"a":)" + std::string(100'000, '[') + std::string(100'000, ']');
  json += R"(,"b":")" + std::string(200'000, '\\') + R"(","model":")" + std::string(500, 'm');
  json += R"(","usage":{"prompt_tokens":5}})";
  const ReplyScanner scanner = Scan(json, 1000);
  ASSERT_TRUE(scanner.complete());
  EXPECT_EQ(scanner.facts().usage.Get(UsageField::kPromptTokens), 5);
  EXPECT_EQ(scanner.facts().model.view(), "") << "what does not fit is not half a name";
}

TEST(ReplyScannerTest, ResetForgetsTheDocumentBefore) {
  ReplyScanner scanner = Scan(kChat);
  scanner.Reset();
  scanner.Feed("{}");
  EXPECT_TRUE(scanner.complete());
  EXPECT_TRUE(scanner.facts().usage.empty());
  EXPECT_EQ(scanner.facts().model.view(), "");
}

TEST(ReplyScannerTest, AnEscapedSlashIsPartOfAName) {
  EXPECT_EQ(Scan(R"({"model":"anthropic\/claude"})").facts().model.view(), "anthropic/claude");
}

std::string ReasonIn(std::string_view json) {
  for (size_t piece_bytes = 1; piece_bytes < json.size(); piece_bytes = piece_bytes * 2 + 1) {
    EXPECT_EQ(Scan(json, piece_bytes).facts().provider_reason.view(),
              Scan(json).facts().provider_reason.view());
  }
  EXPECT_TRUE(Scan(json).complete());
  return std::string(Scan(json).facts().provider_reason.view());
}

TEST(ReplyScannerTest, TakesUpWhatTheProviderSaysOfAMiss) {
  EXPECT_EQ(ReasonIn(R"({"id":"m","diagnostics":{"cache_miss_reason":{"type":"tools_changed",)"
                     R"("cache_missed_input_tokens":120}},"type":"message"})"),
            "tools_changed");
  EXPECT_EQ(ReasonIn(R"({"type":"message_start","message":{"diagnostics":{"x":1,)"
                     R"("cache_miss_reason":{"type":"system_changed"}}}})"),
            "system_changed");
  EXPECT_EQ(ReasonIn(R"({"diagnostics":{"cache_miss_reason":null}})"), "pending");
  EXPECT_EQ(ReasonIn(R"({"diagnostics":null,"usage":null})"), "");
  EXPECT_EQ(ReasonIn(R"({"prompt_cache_diagnostics":{"type":"cache_miss",)"
                     R"("reason":"prompt_cache_key_changed","cache_missed_tokens":5}})"),
            "prompt_cache_key_changed");
  EXPECT_EQ(ReasonIn(R"({"type":"response.completed","response":{"prompt_cache_diagnostics":)"
                     R"({"reason":"input_changed","type":"cache_miss"}}})"),
            "input_changed")
      << "whatever the order of its members";
  EXPECT_EQ(ReasonIn(R"({"prompt_cache_diagnostics":{"type":"cache_hit","reason":null}})"),
            "cache_hit");
}

TEST(ReplyScannerTest, AReasonIsReadInItsPlaceOnlyAndBounded) {
  EXPECT_EQ(ReasonIn(R"({"cache_miss_reason":{"type":"tools_changed"},"type":"message"})"), "");
  EXPECT_EQ(ReasonIn(R"({"diagnostics":{"type":"tools_changed"}})"), "");
  EXPECT_EQ(ReasonIn(R"({"diagnostics":{"cache_miss_reason":"tools_changed"}})"), "");
  EXPECT_EQ(ReasonIn(R"({"content":[{"diagnostics":{"cache_miss_reason":{"type":"x"}}}]})"), "");
  EXPECT_EQ(ReasonIn(R"({"diagnostics":{"cache_miss_reason":{"type":")" + std::string(60, 'x') +
                     R"("}}})"),
            std::string(40, 'x'));
}

TEST(ReplyScannerTest, DroppedThinkingIsCountedWhereTheProviderSaysIt) {
  constexpr std::string_view kAnswer =
      R"({"id":"m","content":[{"type":"text",)"
      R"("text":"\"input_transformations\":[\"thinking_dropped\"]"},)"
      R"({"type":"thinking_dropped"}],"input_transformations":[)"
      R"({"type":"thinking_dropped","path":"messages[1].content[0] \"quoted\" thinking_dropped"},)"
      R"({"type":"other_thinking_dropped"},{"type":"thinking_dropped_too"},)"
      R"({"path":"x","type":"thinking_dropped","more":[{"a":"]}"}]}],"usage":{"input_tokens":5}})";
  for (size_t size = 1; size < 40; ++size) {
    SCOPED_TRACE(size);
    const ReplyScanner scanner = Scan(kAnswer, size);
    ASSERT_TRUE(scanner.complete());
    EXPECT_EQ(scanner.facts().num_thinking_dropped, 2U);
    EXPECT_EQ(scanner.facts().usage.Get(UsageField::kInputTokens), 5);
  }
  const ReplyScanner event = Scan(R"({"type":"message_start","message":{"input_transformations":[)"
                                  R"({"type":"thinking_dropped"}],"usage":{"input_tokens":1}}})");
  EXPECT_EQ(event.facts().num_thinking_dropped, 1U);
  for (const std::string_view none :
       {R"({"input_transformations":null})", R"({"input_transformations":[]})",
        R"({"input_transformations":{"type":"thinking_dropped"}})", R"({"usage":{}})"}) {
    ASSERT_TRUE(Scan(none).complete());
    EXPECT_EQ(Scan(none).facts().num_thinking_dropped, 0U) << none;
  }
}

}  // namespace
}  // namespace kvgate::ledger::reply
