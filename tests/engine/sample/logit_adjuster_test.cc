#include "engine/sample/logit_adjuster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace kvgate::sample {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> Adjusted(const LogitAdjuster& adjuster, std::vector<float> logits) {
  adjuster.Apply(logits);
  return logits;
}

TEST(LogitAdjusterTest, WithoutAdjustmentsItIsIdleWhateverItIsTold) {
  LogitAdjuster adjuster({});
  adjuster.AcceptPrompt(std::vector<TokenId>{1, 2});
  adjuster.Accept(3);
  EXPECT_TRUE(adjuster.is_idle());
  LogitAdjuster off({.repetition_penalty = 1.5f, .repetition_window = 0});
  off.Accept(3);
  EXPECT_TRUE(off.is_idle());
}

TEST(LogitAdjusterTest, ABiasIsAddedAndOneOfMinusHundredBansWhateverTheRange) {
  const LogitAdjuster adjuster({.biases = {{.token = 0, .bias = 1.5f},
                                           {.token = 1, .bias = -100},
                                           {.token = 2, .bias = -99},
                                           {.token = 1000, .bias = 7}}});
  EXPECT_FALSE(adjuster.is_idle());
  EXPECT_EQ(Adjusted(adjuster, {1, 500, 500, 4}), (std::vector<float>{2.5f, -kInfinity, 401, 4}));
}

TEST(LogitAdjusterTest, RepetitionDividesWhatIsPositiveAndMultipliesTheRest) {
  LogitAdjuster adjuster({.repetition_penalty = 2.0f});
  adjuster.AcceptPrompt(std::vector<TokenId>{0, 1, 1});
  adjuster.Accept(3);
  EXPECT_EQ(Adjusted(adjuster, {4, -4, 4, 0, -kInfinity}),
            (std::vector<float>{2, -8, 4, 0, -kInfinity}));
}

TEST(LogitAdjusterTest, PresenceCountsOnceAndFrequencyEachTimeAndBothOnlyTheOutput) {
  LogitAdjuster adjuster({.presence_penalty = 0.5f, .frequency_penalty = 0.25f});
  adjuster.AcceptPrompt(std::vector<TokenId>{0, 0, 1});
  EXPECT_TRUE(adjuster.is_idle());
  for (const TokenId token : {1, 2, 2, 2}) adjuster.Accept(token);
  EXPECT_EQ(Adjusted(adjuster, {1, 1, 1}), (std::vector<float>{1, 0.25f, -0.25f}));
}

TEST(LogitAdjusterTest, TheOrderIsBiasRepetitionThenPresenceAndFrequency) {
  LogitAdjuster adjuster({.biases = {{.token = 0, .bias = 3}},
                          .repetition_penalty = 2.0f,
                          .presence_penalty = 1.0f,
                          .frequency_penalty = 1.0f});
  adjuster.Accept(0);
  EXPECT_EQ(Adjusted(adjuster, {-1}), (std::vector<float>{(-1 + 3) / 2.0f - 2}));
}

TEST(LogitAdjusterTest, TheWindowHoldsTheLastTokensOfPromptAndOutput) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    const int window = static_cast<int>(random() % 12) - 1;
    LogitAdjuster adjuster({.repetition_penalty = 2.0f, .repetition_window = window});
    std::vector<TokenId> text(random() % 20);
    for (TokenId& token : text) token = static_cast<TokenId>(random() % 8);
    adjuster.AcceptPrompt(text);
    for (int i = 0; i < 20; ++i) {
      text.push_back(static_cast<TokenId>(random() % 8));
      adjuster.Accept(text.back());
      const auto length = static_cast<ptrdiff_t>(text.size());
      const auto begin = text.end() - (window < 0 ? length : std::min<ptrdiff_t>(window, length));
      std::vector<float> expected(8, 1.0f);
      for (TokenId id = 0; id < 8; ++id) {
        if (std::find(begin, text.end(), id) != text.end()) expected[id] = 0.5f;
      }
      ASSERT_EQ(Adjusted(adjuster, std::vector<float>(8, 1.0f)), expected);
    }
  }
}

}  // namespace
}  // namespace kvgate::sample
