#include "gateway/ledger/reply/usage_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/gateway/upstream/encoders.h"

namespace kvgate::ledger::reply {
namespace {

using dialect::form::Endpoint;

constexpr const char* kEvents = "text/event-stream; charset=utf-8";

std::optional<TokenUsage> Read(std::string_view body, Endpoint endpoint,
                               std::string_view type = kEvents, size_t piece_bytes = 7) {
  UsageReader reader({.endpoint = endpoint, .content_type = type, .content_encoding = ""});
  for (size_t at = 0; at < body.size(); at += piece_bytes) {
    reader.Feed(body.substr(at, piece_bytes));
  }
  return reader.usage();
}

std::string Event(std::string_view type, std::string_view json) {
  return std::string("event: ").append(type).append("\ndata: ").append(json).append("\n\n");
}

// Providers put the cached counts in different places of an answer; merged, they must give this
// usage.
const TokenUsage kMerged{.uncached_tokens = 12,
                         .cache_read_tokens = 4000,
                         .cache_write_tokens = 100,
                         .cache_write_1h_tokens = 50,
                         .output_tokens = 90};

constexpr std::string_view kCacheFields =
    R"("cache_read_input_tokens":4000,"cache_creation_input_tokens":150,)"
    R"("cache_creation":{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":50})";

std::string Messages(std::string_view start_usage, std::string_view delta_usage) {
  return Event("message_start", std::string(R"({"type":"message_start","message":{"id":"m",)") +
                                    R"("model":"claude-opus-5","usage":{)" +
                                    std::string(start_usage) + "}}}") +
         Event("ping", R"({"type":"ping"})") +
         Event("content_block_delta",
               R"({"delta":{"text":"\"usage\":{\"input_tokens\":9}"},"type":"x"})") +
         Event("message_delta", std::string(R"({"type":"message_delta","delta":{},"usage":{)") +
                                    std::string(delta_usage) + "}}") +
         Event("message_stop", R"({"type":"message_stop"})");
}

TEST(UsageReaderTest, MessagesTellTheCacheFirst) {
  const std::string start =
      std::string(R"("input_tokens":12,)") + std::string(kCacheFields) + R"(,"output_tokens":1)";
  EXPECT_EQ(Read(Messages(start, R"("output_tokens":90)"), Endpoint::kMessages), kMerged);
}

TEST(UsageReaderTest, MessagesTellTheCacheLast) {
  const std::string delta =
      std::string(R"("input_tokens":12,)") + std::string(kCacheFields) + R"(,"output_tokens":90)";
  EXPECT_EQ(Read(Messages(R"("input_tokens":0,"output_tokens":0)", delta), Endpoint::kMessages),
            kMerged);
}

TEST(UsageReaderTest, MessagesTellItTwiceAndItCountsOnce) {
  const std::string both = std::string(R"("input_tokens":12,)") + std::string(kCacheFields);
  EXPECT_EQ(Read(Messages(both + R"(,"output_tokens":1)", both + R"(,"output_tokens":90)"),
                 Endpoint::kMessages),
            kMerged);
}

TEST(UsageReaderTest, ChatTellsItInALastChunkWithoutChoices) {
  const std::string body =
      "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n"
      "data: {\"model\":\"gpt-6-sol\",\"choices\":[],\"usage\":{\"prompt_tokens\":1100,"
      "\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":1024}}}\n\n"
      "data: [DONE]\n\n";
  for (size_t size = 1; size < 30; ++size) {
    EXPECT_EQ(Read(body, Endpoint::kChatCompletions, kEvents, size),
              (TokenUsage{.uncached_tokens = 76, .cache_read_tokens = 1024, .output_tokens = 2}));
  }
}

TEST(UsageReaderTest, CountsThatGrowFromChunkToChunkAreNotAddedUp) {
  std::string body;
  for (int i = 1; i <= 5; ++i) {
    body += "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":" +
            std::to_string(i) + "}}\n\n";
  }
  EXPECT_EQ(Read(body, Endpoint::kChatCompletions),
            (TokenUsage{.uncached_tokens = 9, .output_tokens = 5}));
}

TEST(UsageReaderTest, ResponsesTellItInTheFinalEvent) {
  const std::string body =
      Event("response.created", R"({"type":"response.created","response":{"usage":null}})") +
      Event("response.completed",
            R"({"type":"response.completed","response":{"model":"gpt-6-sol",)"
            R"("service_tier":"priority","usage":{"input_tokens":5000,"output_tokens":20,)"
            R"("input_tokens_details":{"cached_tokens":4608,"cache_write_tokens":300}}}})");
  UsageReader reader(
      {.endpoint = Endpoint::kResponses, .content_type = kEvents, .content_encoding = ""});
  reader.Feed(body);
  EXPECT_EQ(reader.usage(), (TokenUsage{.uncached_tokens = 92,
                                        .cache_read_tokens = 4608,
                                        .cache_write_tokens = 300,
                                        .output_tokens = 20}));
  EXPECT_EQ(reader.facts().model.view(), "gpt-6-sol");
  EXPECT_EQ(reader.facts().service_tier.view(), "priority");
  EXPECT_EQ(reader.num_events(), 2u);
}

TEST(UsageReaderTest, AWholeBodyIsReadAsOne) {
  const auto usage = Read(R"({"usage":{"prompt_tokens":8,"completion_tokens":1}})",
                          Endpoint::kCompletions, "Application/JSON; charset=utf-8");
  EXPECT_EQ(usage, (TokenUsage{.uncached_tokens = 8, .output_tokens = 1}));
  EXPECT_EQ(Read(R"({"usage":{"prompt_tokens":8,"total_tokens":8}})", Endpoint::kEmbeddings,
                 "application/vnd.x+json"),
            (TokenUsage{.uncached_tokens = 8}));
}

TEST(UsageReaderTest, WhatWasCutIsKnownOnlyAsFarAsEventsWereWhole) {
  EXPECT_EQ(Read(R"({"usage":{"prompt_tokens":8,"completion_tokens":1})", Endpoint::kCompletions,
                 "application/json"),
            std::nullopt);
  EXPECT_EQ(Read("data: {\"usage\":{\"prompt_tokens\":8}}\n", Endpoint::kCompletions),
            std::nullopt);
}

struct Encoded {
  std::optional<TokenUsage> usage;
  std::string unreadable;
};

Encoded ReadEncoded(std::string_view body, const char* encoding, size_t piece_bytes,
                    const char* type = kEvents) {
  UsageReader reader(
      {.endpoint = Endpoint::kMessages, .content_type = type, .content_encoding = encoding});
  for (size_t at = 0; at < body.size(); at += piece_bytes) {
    reader.Feed(body.substr(at, piece_bytes));
  }
  return {.usage = reader.usage(), .unreadable = std::string(reader.unreadable())};
}

TEST(UsageReaderTest, CompressedAnswersAreReadInEachCoding) {
  const std::string start =
      std::string(R"("input_tokens":12,)") + std::string(kCacheFields) + R"(,"output_tokens":1)";
  const std::string events = Messages(start, R"("output_tokens":90)");
  const std::string whole = std::string(R"({"type":"message","usage":{"output_tokens":90,)") +
                            R"("input_tokens":12,)" + std::string(kCacheFields) + "}}";
  for (const char* encoding : {"gzip", "deflate", "zstd", "br"}) {
    for (const size_t piece_bytes : {size_t{1}, size_t{10}, size_t{100'000}}) {
      EXPECT_EQ(ReadEncoded(upstream::Encode(encoding, events), encoding, piece_bytes).usage,
                kMerged)
          << encoding;
      EXPECT_EQ(
          ReadEncoded(upstream::Encode(encoding, whole), encoding, piece_bytes, "application/json")
              .usage,
          kMerged)
          << encoding;
    }
  }
}

TEST(UsageReaderTest, WhatIsNotInItsCodingOrExpandsTooMuchHasNoUsageAndSaysWhy) {
  const std::string events =
      Messages(R"("input_tokens":12,"output_tokens":0)", R"("output_tokens":90)");
  const std::string bomb = events + ":" + std::string(size_t{64} << 20, 'x') + "\n";
  for (const char* encoding : {"gzip", "zstd", "br"}) {
    const Encoded plain = ReadEncoded("{\"usage\":{}} and no coding", encoding, 5);
    EXPECT_EQ(plain.usage, std::nullopt) << encoding;
    EXPECT_EQ(plain.unreadable, "broken encoding") << encoding;
    const Encoded tail = ReadEncoded(upstream::Encode(encoding, events) + "tail", encoding, 1000);
    EXPECT_EQ(tail.usage, std::nullopt) << encoding;
    const Encoded huge = ReadEncoded(upstream::Encode(encoding, bomb), encoding, 1000);
    EXPECT_EQ(huge.usage, std::nullopt) << encoding;
    EXPECT_EQ(huge.unreadable, "expands too much") << encoding;
  }
}

TEST(UsageReaderTest, UnknownCodingsAndForeignBodiesAreNotGuessedAt) {
  const std::string body = R"({"usage":{"prompt_tokens":8,"completion_tokens":1}})";
  for (const char* encoding : {"gzip, gzip", "compress", "x"}) {
    UsageReader reader({.endpoint = Endpoint::kCompletions,
                        .content_type = "application/json",
                        .content_encoding = encoding});
    reader.Feed(body);
    EXPECT_EQ(reader.usage(), std::nullopt);
    EXPECT_EQ(reader.unreadable(), "encoded");
  }
  UsageReader identity({.endpoint = Endpoint::kCompletions,
                        .content_type = "application/json",
                        .content_encoding = "Identity"});
  identity.Feed(body);
  EXPECT_NE(identity.usage(), std::nullopt);
  EXPECT_EQ(Read(body, Endpoint::kCompletions, "text/html"), std::nullopt);
  EXPECT_EQ(Read(body, Endpoint::kCompletions, ""), std::nullopt);
}

TEST(UsageReaderTest, AnErrorBehindAGoodStatusIsSeen) {
  UsageReader reader(
      {.endpoint = Endpoint::kMessages, .content_type = kEvents, .content_encoding = ""});
  reader.Feed(Event("error", R"({"type":"error","error":{"type":"overloaded_error"}})"));
  EXPECT_TRUE(reader.facts().error);
  EXPECT_EQ(reader.usage(), std::nullopt);
}

TEST(UsageReaderTest, TheProvidersReasonIsTheOneThatWasKnownInTheEnd) {
  const auto reason = [](std::string_view body, Endpoint endpoint) {
    UsageReader reader({.endpoint = endpoint, .content_type = kEvents, .content_encoding = ""});
    reader.Feed(body);
    return std::string(reader.facts().provider_reason.view());
  };
  const std::string pending =
      Event("message_start", R"({"message":{"diagnostics":{"cache_miss_reason":null}}})");
  const std::string known =
      Event("message_delta", R"({"diagnostics":{"cache_miss_reason":{"type":"tools_changed"}}})");
  EXPECT_EQ(reason(pending, Endpoint::kMessages), "pending");
  EXPECT_EQ(reason(pending + known, Endpoint::kMessages), "tools_changed");
  EXPECT_EQ(reason(known + pending, Endpoint::kMessages), "tools_changed");
  EXPECT_EQ(reason(Event("response.created", R"({"response":{"id":"r"}})") +
                       Event("response.completed",
                             R"({"response":{"prompt_cache_diagnostics":{"type":"cache_miss",)"
                             R"("reason":"reasoning_effort_changed"}}})"),
                   Endpoint::kResponses),
            "reasoning_effort_changed");
}

TEST(UsageReaderTest, DroppedThinkingIsCountedOnceAlthoughEventsRepeatIt) {
  const std::string list =
      R"("input_transformations":[{"type":"thinking_dropped"},{"type":"thinking_dropped"}])";
  UsageReader reader(
      {.endpoint = Endpoint::kMessages, .content_type = kEvents, .content_encoding = ""});
  reader.Feed(Event("message_start", R"({"message":{)" + list + "}}"));
  reader.Feed(Event("content_block_delta", R"({"delta":{"text":"x"}})"));
  reader.Feed(Event("message_delta", "{" + list + "}"));
  EXPECT_EQ(reader.facts().num_thinking_dropped, 2U);
}

TEST(UsageReaderTest, GeminiCountsThoughtsBesideTheAnswer) {
  const std::string stream =
      "data: {\"candidates\":[],\"usageMetadata\":{\"promptTokenCount\":100}}\r\n\r\n"
      "data: {\"usageMetadata\":{\"promptTokenCount\":100,\"cachedContentTokenCount\":60,"
      "\"candidatesTokenCount\":5,\"thoughtsTokenCount\":3,\"totalTokenCount\":108},"
      "\"modelVersion\":\"gemini-3-flash\"}\r\n\r\n";
  const auto usage = Read(stream, Endpoint::kGenerateContent);
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->uncached_tokens, 40);
  EXPECT_EQ(usage->cache_read_tokens, 60);
  EXPECT_EQ(usage->output_tokens, 8);
  EXPECT_EQ(usage->reasoning_tokens, 3);
}

}  // namespace
}  // namespace kvgate::ledger::reply
