#include "gateway/replay/openai_cache.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/gateway/replay/model_driver.h"

namespace kvgate::replay {
namespace {

std::string Chat(std::string_view model, const std::vector<std::string>& turns,
                 std::string_view more = "") {
  std::string messages;
  for (size_t i = 0; i < turns.size(); ++i) {
    messages += fmt::format(R"({}{{"role":"{}","content":"{}"}})", i == 0 ? "" : ",",
                            i % 2 == 0 ? "user" : "assistant", turns[i]);
  }
  return fmt::format(R"({{"model":"{}",{}"messages":[{}]}})", model, more, messages);
}

Driver Make() { return Driver::For("openai", dialect::form::Endpoint::kChatCompletions); }

TEST(OpenAiCache, WritesAtTheNewestTurnAndIsPaidForIt) {
  Driver cache = Make();
  const auto first = cache.Ask(0, Chat("gpt-5.6-sol", {Words(2000)})).usage;
  EXPECT_EQ(first.cache_write_tokens, first.input_tokens());
  const auto second =
      cache.Ask(1, Chat("gpt-5.6-sol", {Words(2000), "fine", Words(500, 'b')})).usage;
  EXPECT_EQ(second.cache_read_tokens, first.input_tokens());
  EXPECT_GE(second.cache_write_tokens, 500);
  EXPECT_EQ(second.uncached_tokens, 0);
}

TEST(OpenAiCache, EntriesAreFoundUnderTheirKeyOnly) {
  Driver cache = Make();
  cache.Ask(0, Chat("gpt-6-sol", {Words(2000)}, R"("prompt_cache_key":"a",)"));
  EXPECT_EQ(cache.Ask(1, Chat("gpt-6-sol", {Words(2000)})).usage.cache_read_tokens, 0);
  EXPECT_GT(cache.Ask(2, Chat("gpt-6-sol", {Words(2000)}, R"("prompt_cache_key":"a",)"))
                .usage.cache_read_tokens,
            0);
}

TEST(OpenAiCache, ExplicitModeWithoutABreakpointWritesNothing) {
  Driver cache = Make();
  constexpr std::string_view kExplicit = R"("prompt_cache_options":{"mode":"explicit"},)";
  cache.Ask(0, Chat("gpt-6-sol", {Words(2000)}, kExplicit));
  const auto usage = cache.Ask(1, Chat("gpt-6-sol", {Words(2000)}, kExplicit)).usage;
  EXPECT_EQ(usage.uncached_tokens, usage.input_tokens());
}

TEST(OpenAiCache, OlderModelsCacheInIncrementsForFree) {
  Driver cache = Make();
  cache.Ask(0, Chat("gpt-5.5", {Words(3000)}));
  const auto usage = cache.Ask(1, Chat("gpt-5.5", {Words(3000), "fine", "more"})).usage;
  EXPECT_EQ(usage.cache_read_tokens % 128, 0);
  EXPECT_NEAR(static_cast<double>(usage.cache_read_tokens), 3000, 128);
  EXPECT_EQ(usage.cache_write_tokens, 0);
  cache.Ask(2, Chat("gpt-5.5", {Words(1500, 'b')}));
  EXPECT_EQ(cache.Ask(3, Chat("gpt-5.5", {Words(1500, 'b')})).usage.cache_read_tokens, 0);
}

TEST(OpenAiCache, ALookupConsidersTwentyEarlierTurns) {
  for (const size_t behind : {size_t{20}, size_t{21}}) {
    Driver cache = Make();
    std::vector<std::string> turns = {Words(2000)};
    cache.Ask(0, Chat("gpt-6-sol", turns));
    for (size_t i = 0; i < behind; ++i) {
      turns.push_back("fine");
      turns.push_back("more " + std::to_string(i));
    }
    const auto usage = cache.Ask(1, Chat("gpt-6-sol", turns)).usage;
    EXPECT_EQ(usage.cache_read_tokens > 0, behind == 20) << behind;
  }
}

TEST(OpenAiCache, ABreakpointAtTheFrontIsFoundHoweverLongTheRest) {
  Driver cache = Make();
  const std::string system =
      fmt::format(R"({{"role":"system","content":[{{"type":"text","text":"{}",)"
                  R"("prompt_cache_breakpoint":{{"mode":"explicit"}}}}]}})",
                  Words(2000));
  const auto ask = [&](int second, size_t num_turns) {
    std::string messages = system;
    for (size_t i = 0; i < num_turns; ++i) {
      messages += fmt::format(R"(,{{"role":"user","content":"{} at {}"}})", i, second);
    }
    return cache.Ask(second, R"({"model":"gpt-6-sol","messages":[)" + messages + "]}").usage;
  };
  ask(0, 1);
  EXPECT_GT(ask(1, 60).cache_read_tokens, 1900);
}

TEST(OpenAiCache, RefusesWhatTheApiRefuses) {
  Driver cache = Make();
  const std::string key = fmt::format(R"("prompt_cache_key":"{}",)", std::string(65, 'k'));
  EXPECT_NE(cache.Ask(0, Chat("gpt-6-sol", {"x"}, key)).refusal, "");
  EXPECT_NE(cache.Ask(0, Chat("gpt-5.5", {"x"}, R"("prompt_cache_options":{},)")).refusal, "");
  EXPECT_EQ(cache.Ask(0, Chat("gpt-6-sol", {"x"}, R"("prompt_cache_options":{},)")).refusal, "");
}

TEST(OpenAiCache, ChangedEffortMissesWhole) {
  Driver cache = Make();
  cache.Ask(0, Chat("gpt-6-sol", {Words(2000)}, R"("reasoning_effort":"low",)"));
  const auto usage =
      cache.Ask(1, Chat("gpt-6-sol", {Words(2000)}, R"("reasoning_effort":"high",)")).usage;
  EXPECT_EQ(usage.cache_read_tokens, 0);
}

TEST(OpenAiCache, MoreThanFifteenAMinuteOfOneKeyOverflow) {
  Driver cache = Make();
  cache.model = CacheModel::Make({.provider = "openai", .overflows = true});
  const std::string body = Chat("gpt-6-sol", {Words(2000)});
  int num_cold = 0;
  for (int i = 0; i < 16; ++i) num_cold += cache.Ask(i, body).usage.cache_read_tokens == 0;
  EXPECT_EQ(num_cold, 2);
  EXPECT_GT(cache.Ask(200, body).usage.cache_read_tokens, 0);  // the first machine again
}

}  // namespace
}  // namespace kvgate::replay
