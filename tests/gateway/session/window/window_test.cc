#include "gateway/session/window/window.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvgate::session::window {
namespace {

TEST(WindowTest, ThresholdsFollowFromTheContext) {
  const Thresholds limits =
      ThresholdsOf({}, {.context = 10'000, .output = 2000, .growth = 100, .least = 500});
  EXPECT_EQ(limits.hard, 8000);
  EXPECT_EQ(limits.high, 6400);
  EXPECT_EQ(limits.low, 3400);  // high - 30 growth
  EXPECT_EQ(ThresholdsOf({}, {.context = 10'000, .output = 2000, .growth = 1, .least = 500}).low,
            3840);  // 0.6 high
  EXPECT_EQ(ThresholdsOf({}, {.context = 10'000, .output = 2000, .growth = 1000, .least = 500}).low,
            500);
}

TEST(WindowTest, WhatIsSetHoldsWithinTheContext) {
  const Thresholds set =
      ThresholdsOf({.high = 300, .low = 100, .hard = 400}, {.context = 10'000, .output = 2000});
  EXPECT_EQ(set.hard, 400);
  EXPECT_EQ(set.high, 300);
  EXPECT_EQ(set.low, 100);
  const Thresholds above = ThresholdsOf({.high = 90'000, .low = 95'000, .hard = 99'000},
                                        {.context = 1000, .output = 200});
  EXPECT_EQ(above.hard, 800);
  EXPECT_EQ(above.high, 800);
  EXPECT_EQ(above.low, 800);
  EXPECT_EQ(ThresholdsOf({.high = 300, .low = 100}, {}).hard, 0) << "no context, no window";
}

TEST(WindowTest, ASummaryHasItsRoom) {
  Settings settings{.mode = Mode::kSummary};
  EXPECT_EQ(ThresholdsOf({}, {.context = 8000}).summary, 0);
  EXPECT_EQ(ThresholdsOf(settings, {.context = 8000}).summary, 1000);
  EXPECT_EQ(ThresholdsOf(settings, {.context = 100}).summary, 64);
  EXPECT_EQ(ThresholdsOf(settings, {.context = 1'000'000}).summary, 2048);
  const Measures measures{.context = 8000, .growth = 200, .least = 500};
  EXPECT_EQ(ThresholdsOf(settings, measures).low, 1500);
  settings.summary_tokens_max = 300;
  EXPECT_EQ(ThresholdsOf(settings, measures).summary, 300);
  EXPECT_EQ(ThresholdsOf(settings, measures).low, 800);
}

TEST(WindowTest, NothingIsLeftOutBelowHighAndThereAllAboveLow) {
  const Thresholds limits{.high = 100, .low = 50, .hard = 120};
  std::vector<size_t> asked;
  const auto tokens_of = [&asked](int64_t all) {
    return [&asked, all](size_t num_left_out) -> Result<int64_t> {
      asked.push_back(num_left_out);
      return all - 10 * static_cast<int64_t>(num_left_out);
    };
  };
  const auto below = FitRounds(limits, 9, tokens_of(100));
  ASSERT_TRUE(below);
  EXPECT_EQ(below->num_left_out, 0u);
  EXPECT_EQ(asked.size(), 1u);
  const auto above = FitRounds(limits, 9, tokens_of(101));
  ASSERT_TRUE(above);
  EXPECT_EQ(above->num_left_out, 6u);
  EXPECT_EQ(above->before, 101);
  EXPECT_EQ(above->after, 41);
  const auto few = FitRounds(limits, 2, tokens_of(101));
  ASSERT_TRUE(few);
  EXPECT_EQ(few->num_left_out, 2u) << "as many as there are";
}

TEST(WindowTest, AFailureToCountFails) {
  const auto failed = FitRounds({.high = 1, .low = 1, .hard = 1}, 3, [](size_t) -> Result<int64_t> {
    return MakeError(ErrorCode::kUnavailable, "test", "no tokenizer");
  });
  EXPECT_FALSE(failed);
}

// Between two drops the prompt only grows at its end, and no prompt is above the hard limit.
TEST(WindowTest, DropsAreRareInALongSession) {
  const Thresholds limits = ThresholdsOf({.hard = 3000}, {.growth = 40, .least = 400});
  std::vector<int64_t> rounds;
  size_t num_drops = 0;
  for (int turn = 0; turn < 200; ++turn) {
    rounds.push_back(30 + turn % 20);
    const auto fit = FitRounds(limits, rounds.size() - 1, [&](size_t gone) -> Result<int64_t> {
      int64_t tokens = 300;
      for (size_t i = gone; i < rounds.size(); ++i) tokens += rounds[i];
      return tokens;
    });
    ASSERT_TRUE(fit);
    EXPECT_LE(fit->after, limits.hard);
    if (fit->num_left_out > 0) ++num_drops;
    rounds.erase(rounds.begin(), rounds.begin() + static_cast<std::ptrdiff_t>(fit->num_left_out));
  }
  EXPECT_GE(num_drops, 3u);
  EXPECT_LE(num_drops, 7u);
}

}  // namespace
}  // namespace kvgate::session::window
