#include "gateway/replay/prefix_caches.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/gateway/replay/model_driver.h"

namespace kvgate::replay {
namespace {

using dialect::form::Endpoint;

std::string Chat(std::string_view system, std::string_view tool, std::string_view user,
                 std::string_view more = "") {
  return fmt::format(R"({{"model":"m",{}"tools":[{{"name":"{}"}}],"messages":[)"
                     R"({{"role":"system","content":"{}"}},{{"role":"user","content":"{}"}}]}})",
                     more, tool, system, user);
}

TEST(IncrementCache, ReadsWholeIncrementsFromTheFrontOn) {
  Driver cache = Driver::For("xai", Endpoint::kChatCompletions);
  cache.Ask(0, Chat(Words(1000), "t", "x"));
  const auto usage = cache.Ask(1, Chat(Words(1000), "t", "y")).usage;
  EXPECT_EQ(usage.cache_read_tokens % 128, 0);
  EXPECT_NEAR(static_cast<double>(usage.cache_read_tokens), 1000, 128);
}

TEST(IncrementCache, AConversationsNameKeepsItOnOneServer) {
  Driver cache = Driver::For("xai", Endpoint::kChatCompletions);
  cache.model = CacheModel::Make({.provider = "xai", .num_servers = 4});
  const std::string body = Chat(Words(1000), "t", "x");
  cache.Ask(0, body);
  EXPECT_EQ(cache.Ask(1, body).usage.cache_read_tokens, 0);  // the servers take turns
  cache.Ask(2, body, "me", "conversation-1");
  EXPECT_GT(cache.Ask(3, body, "me", "conversation-1").usage.cache_read_tokens, 0);
}

TEST(IncrementCache, KimisHourBeginsAgainWithEachHit) {
  Driver cache = Driver::For("moonshot", Endpoint::kChatCompletions);
  const std::string body = Chat(Words(1000), "t", "x");
  cache.Ask(0, body);
  EXPECT_GT(cache.Ask(3500, body).usage.cache_read_tokens, 0);
  EXPECT_GT(cache.Ask(7000, body).usage.cache_read_tokens, 0);
  EXPECT_EQ(cache.Ask(10700, body).usage.cache_read_tokens, 0);
}

TEST(UnitCache, FindsCompleteUnitsAndLearnsCommonPrefixes) {
  // A+B is written, then A+C misses and makes a unit of A, then A+D reads it.
  Driver cache = Driver::For("deepseek", Endpoint::kChatCompletions);
  EXPECT_EQ(cache.Ask(0, Chat(Words(1000), "t", "b")).usage.cache_read_tokens, 0);
  EXPECT_EQ(cache.Ask(1, Chat(Words(1000), "t", "c")).usage.cache_read_tokens, 0);
  EXPECT_NEAR(
      static_cast<double>(cache.Ask(2, Chat(Words(1000), "t", "d")).usage.cache_read_tokens), 1000,
      64);
}

TEST(UnitCache, ToolsRenderBehindTheSystemPrompt) {
  Driver cache = Driver::For("deepseek", Endpoint::kChatCompletions);
  const std::string tool = Words(1000, 't');
  for (int i = 0; i < 3; ++i) cache.Ask(i, Chat(Words(1000) + std::to_string(i), tool, "x"));
  const auto usage = cache.Ask(4, Chat(Words(1000) + "9", tool, "x")).usage;
  EXPECT_NEAR(static_cast<double>(usage.cache_read_tokens), 1000, 80);
}

TEST(RawCache, HashesBytesAsTheyCome) {
  Driver cache = Driver::For("raw", Endpoint::kResponses);
  const std::string tools = R"("tools":[{"name":")" + Words(1000, 't') + R"("}])";
  const auto body = [&](std::string_view input, bool tools_first) {
    return tools_first ? fmt::format(R"({{{},"input":"{}"}})", tools, input)
                       : fmt::format(R"({{"input":"{}",{}}})", input, tools);
  };
  cache.Ask(0, body("a", false));
  EXPECT_EQ(cache.Ask(1, body("b", false)).usage.cache_read_tokens, 0);
  cache.Ask(2, body("a", true));
  EXPECT_GT(cache.Ask(3, body("b", true)).usage.cache_read_tokens, 900);
}

}  // namespace
}  // namespace kvgate::replay
