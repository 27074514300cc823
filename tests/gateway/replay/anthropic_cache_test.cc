#include "gateway/replay/anthropic_cache.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/gateway/replay/model_driver.h"

namespace kvgate::replay {
namespace {

constexpr std::string_view kMark = R"(,"cache_control":{"type":"ephemeral"})";
constexpr std::string_view kMarkHour = R"(,"cache_control":{"type":"ephemeral","ttl":"1h"})";

std::string Block(const std::string& text, std::string_view breakpoint = "") {
  return fmt::format(R"({{"type":"text","text":"{}"{}}})", text, breakpoint);
}

// Returns a body of system blocks and one user turn; `more` follows the model, such as
// `"speed":"fast",`.
std::string Body(const std::vector<std::string>& system, const std::vector<std::string>& user,
                 std::string_view more = "", std::string_view tools = "") {
  return fmt::format(R"({{"model":"claude-sonnet-5",{}"tools":[{}],"system":[{}],)"
                     R"("messages":[{{"role":"user","content":[{}]}}]}})",
                     more, tools, fmt::join(system, ","), fmt::join(user, ","));
}

Driver Make() { return Driver::For("anthropic", dialect::form::Endpoint::kMessages); }

TEST(AnthropicCache, IsReadAtABreakpointOnceWrittenAndNeverBelowTheMinimum) {
  Driver cache = Make();
  const std::string body = Body({Block(Words(2000), kMark)}, {Block("hello")});
  const ledger::reply::TokenUsage first = cache.Ask(0, body).usage;
  const ledger::reply::TokenUsage second = cache.Ask(10, body).usage;
  EXPECT_EQ(first.cache_read_tokens, 0);
  EXPECT_GE(first.cache_write_tokens, 2000);
  EXPECT_EQ(second.cache_read_tokens, first.cache_write_tokens);
  EXPECT_EQ(second.cache_write_tokens, 0);
  EXPECT_EQ(second.input_tokens(), first.input_tokens());

  const std::string small = Body({Block(Words(900), kMark)}, {Block("hello")});
  EXPECT_EQ(cache.Ask(20, small).usage.cache_write_tokens, 0);
  EXPECT_EQ(cache.Ask(30, small).usage.cache_read_tokens, 0);
}

TEST(AnthropicCache, WithoutABreakpointNothingIsWritten) {
  Driver cache = Make();
  const std::string body = Body({Block(Words(2000))}, {Block("hello")});
  cache.Ask(0, body);
  EXPECT_EQ(cache.Ask(1, body).usage.uncached_tokens, cache.Ask(2, body).usage.input_tokens());
}

TEST(AnthropicCache, LooksBackTwentyBlocksItselfIncluded) {
  // Block 15 is written; a breakpoint at block 35 checks blocks 35 to 16, one at 34 also 15.
  const auto body = [](int last) {
    std::vector<std::string> blocks;
    for (int i = 1; i <= last; ++i) {
      blocks.push_back(Block(fmt::format("{:04}{}", i, Words(199)), i == last ? kMark : ""));
    }
    return Body({}, blocks);
  };
  Driver near = Make();
  near.Ask(0, body(15));
  EXPECT_GT(near.Ask(1, body(34)).usage.cache_read_tokens, 0);
  Driver far = Make();
  far.Ask(0, body(15));
  EXPECT_EQ(far.Ask(1, body(35)).usage.cache_read_tokens, 0);
}

TEST(AnthropicCache, BillsReadsHoursAndMinutesApart) {
  Driver cache = Make();
  const std::string a = Words(2000, 'a');
  cache.Ask(0, Body({Block(a, kMark)}, {Block("x")}));
  const auto usage = cache
                         .Ask(1, Body({Block(a), Block(Words(1000, 'b'), kMarkHour)},
                                      {Block(Words(500, 'c'), kMark), Block(Words(100, 'd'))}))
                         .usage;
  EXPECT_NEAR(static_cast<double>(usage.cache_read_tokens), 2000, 20);
  EXPECT_NEAR(static_cast<double>(usage.cache_write_1h_tokens), 1000, 20);
  EXPECT_NEAR(static_cast<double>(usage.cache_write_tokens), 500, 20);
  EXPECT_NEAR(static_cast<double>(usage.uncached_tokens), 100, 20);
}

TEST(AnthropicCache, AnEntryLivesFiveMinutesFromItsLastUseOrAnHour) {
  Driver cache = Make();
  const std::string minutes = Body({Block(Words(2000), kMark)}, {Block("x")});
  const std::string hour = Body({Block(Words(2000, 'h'), kMarkHour)}, {Block("x")});
  cache.Ask(0, minutes);
  cache.Ask(0, hour);
  EXPECT_GT(cache.Ask(299, minutes).usage.cache_read_tokens, 0);
  EXPECT_GT(cache.Ask(598, minutes).usage.cache_read_tokens, 0);
  EXPECT_EQ(cache.Ask(899, minutes).usage.cache_read_tokens, 0);
  EXPECT_GT(cache.Ask(3599, hour).usage.cache_read_tokens, 0);
}

TEST(AnthropicCache, ParallelColdRequestsAllPay) {
  Driver cache = Make();
  cache.first_byte_seconds = 2;
  const std::string body = Body({Block(Words(2000), kMark)}, {Block("x")});
  EXPECT_GT(cache.Ask(0, body).usage.cache_write_tokens, 0);
  EXPECT_GT(cache.Ask(1, body).usage.cache_write_tokens, 0);
  EXPECT_GT(cache.Ask(2, body).usage.cache_read_tokens, 0);
}

TEST(AnthropicCache, NothingIsSharedBetweenCredentialsOrModels) {
  Driver cache = Make();
  const std::string body = Body({Block(Words(2000), kMark)}, {Block("x")});
  std::string other = body;
  other.replace(other.find("sonnet-5"), 8, "opus-5-5");
  cache.Ask(0, body);
  EXPECT_EQ(cache.Ask(1, body, "you").usage.cache_read_tokens, 0);
  EXPECT_EQ(cache.Ask(2, other).usage.cache_read_tokens, 0);
}

// Returns the tokens read after `change`, for a prompt whose tools, system and turn are marked.
int64_t ReadAfter(std::string_view before, std::string_view change) {
  Driver cache = Make();
  const std::string tool =
      fmt::format(R"({{"name":"t","description":"{}","input_schema":{{}}{}}})", Words(2000), kMark);
  const std::vector<std::string> system = {Block(Words(1000, 'b'), kMark)};
  const std::vector<std::string> user = {Block(Words(1000, 'c'), kMark)};
  cache.Ask(0, Body(system, user, before, tool));
  return cache.Ask(1, Body(system, user, change, tool)).usage.cache_read_tokens;
}

TEST(AnthropicCache, ParametersBreakTheSectionsOfTheTable) {
  EXPECT_NEAR(static_cast<double>(ReadAfter("", "")), 4000, 60);
  EXPECT_NEAR(static_cast<double>(ReadAfter("", R"("speed":"fast",)")), 2000, 60);
  EXPECT_NEAR(static_cast<double>(ReadAfter("", R"("tool_choice":{"type":"any"},)")), 3000, 60);
  EXPECT_NEAR(static_cast<double>(ReadAfter("", R"("thinking":{"type":"enabled"},)")), 3000, 60);
  EXPECT_NEAR(static_cast<double>(ReadAfter("", R"("output_config":{"effort":"low"},)")), 3000, 60);
  // Naming the default effort is not a change.
  EXPECT_NEAR(static_cast<double>(ReadAfter("", R"("output_config":{"effort":"high"},)")), 4000,
              60);
}

TEST(AnthropicCache, RefusesWhatTheApiRefuses) {
  const auto refusal = [](const std::string& body) { return Make().Ask(0, body).refusal; };
  const std::string marked = Block("x", kMark);
  EXPECT_EQ(refusal(Body({marked, marked, marked, marked}, {Block("y")})), "");
  // The API takes at most four breakpoints.
  EXPECT_NE(refusal(Body({marked, marked, marked, marked}, {marked})).find("Found 5"),
            std::string::npos);
  EXPECT_NE(refusal(Body({marked}, {Block("y", kMarkHour)})).find("must not come after"),
            std::string::npos);
  EXPECT_EQ(refusal(Body({Block("y", kMarkHour)}, {marked})), "");
  EXPECT_NE(refusal(Body({}, {Block("", kMark)})).find("empty"), std::string::npos);
  EXPECT_NE(refusal(Body({}, {fmt::format(R"({{"type":"thinking","thinking":"t"{}}})", kMark)}))
                .find("thinking"),
            std::string::npos);
  EXPECT_NE(refusal("[]"), "");
}

TEST(AnthropicCache, TheAutomaticBreakpointTakesTheLastEligibleBlock) {
  Driver cache = Make();
  constexpr std::string_view kAutomatic = R"("cache_control":{"type":"ephemeral"},)";
  const std::string body = Body({}, {Block(Words(2000)), Block("")}, kAutomatic);
  EXPECT_GT(cache.Ask(0, body).usage.cache_write_tokens, 0);
  const std::string marked = Block("x", kMark);
  const std::string full = Body({marked, marked, marked, marked}, {Block("y")}, kAutomatic);
  EXPECT_NE(cache.Ask(1, full).refusal, "");
  // The last block is marked already, so the automatic breakpoint adds none.
  EXPECT_EQ(cache.Ask(2, Body({marked}, {marked}, kAutomatic)).refusal, "");
  EXPECT_NE(cache.Ask(3, Body({}, {Block("y", kMarkHour)}, kAutomatic)).refusal, "");
}

}  // namespace
}  // namespace kvgate::replay
