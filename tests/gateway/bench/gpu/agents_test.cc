#include "gateway/bench/gpu/agents.h"

#include <gtest/gtest.h>

#include "tests/gateway/bench/gpu/tiny_engine.h"

namespace kvgate::bench::gpu {
namespace {

constexpr AgentSizes MakeSizes() {
  return {.common_tokens = 128,
          .first_tokens = 64,
          .turn_tokens = 32,
          .output_tokens = 4,
          .num_turns = 3,
          .sessions = {}};
}

AgentRun Agents(bool has_prefix_cache) {
  return {.sizes = MakeSizes(),
          .num_sessions = 2,
          .has_prefix_cache = has_prefix_cache,
          .salt = "agents",
          .until = Clock::now() + std::chrono::minutes(2)};
}

TEST(AgentsTest, EveryTurnGrowsByTheAnswerAndWhatAToolSaid) {
  const OpenedEngine opened = OpenTinyEngine();
  const auto report = RunAgents(*opened.engine, Agents(true));
  ASSERT_TRUE(report.has_value()) << report.error().ToString();
  EXPECT_EQ(report->turns.size(), 6u);
  EXPECT_FALSE(report->is_cut());
  EXPECT_EQ(report->num_output_tokens, 6u * 4);
  for (const AgentTurn& turn : report->turns) {
    EXPECT_GT(turn.ttft_ms, 0);
    EXPECT_EQ(turn.stats.num_prompt_tokens, 192 + turn.turn * 36);
    // All whole blocks of the turn before are cached; the last token of its answer was never
    // computed.
    const int num_before = turn.turn > 0 ? 192 + (turn.turn - 1) * 36 : 0;
    EXPECT_GE(turn.stats.num_cached_tokens, num_before);
  }
}

TEST(AgentsTest, WithoutThePrefixCacheNothingIsShared) {
  const OpenedEngine opened = OpenTinyEngine();
  const auto report = RunAgents(*opened.engine, Agents(false));
  ASSERT_TRUE(report.has_value()) << report.error().ToString();
  EXPECT_EQ(report->turns.size(), 6u);
  for (const AgentTurn& turn : report->turns) EXPECT_EQ(turn.stats.num_cached_tokens, 0);
}

TEST(AgentsTest, ARunOutOfTimeIsCut) {
  const OpenedEngine opened = OpenTinyEngine();
  AgentRun agents = Agents(true);
  agents.until = Clock::now();
  const auto report = RunAgents(*opened.engine, agents);
  ASSERT_TRUE(report.has_value()) << report.error().ToString();
  EXPECT_TRUE(report->is_cut());
  EXPECT_EQ(opened.engine->Stats().num_running, 0u);
}

TEST(AgentsTest, ATurnThatIsCutCountsWithItsFirstTokenButIsNotAnswered) {
  const OpenedEngine opened = OpenTinyEngine();
  AgentRun agents = Agents(true);
  agents.num_sessions = 1;
  agents.sizes.output_tokens = 7500;
  agents.until = Clock::now() + std::chrono::milliseconds(500);
  const auto report = RunAgents(*opened.engine, agents);
  ASSERT_TRUE(report.has_value()) << report.error().ToString();
  ASSERT_EQ(report->turns.size(), 1u);
  EXPECT_FALSE(report->turns[0].is_whole);
  EXPECT_EQ(report->num_answered(), 0);
  EXPECT_GT(report->num_output_tokens, 0u);
  EXPECT_EQ(report->turns[0].stats.num_prompt_tokens, 192);
}

}  // namespace
}  // namespace kvgate::bench::gpu
