// A row that comes with its head gives the same tokens as the whole row, and the same bits of
// log-probabilities, even if the row was not fetched.
#include "engine/sample/logit_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "engine/sample/sampler.h"

namespace kvgate::sample {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kTolerance = 1e-5;
// The tolerance is so wide that draws would show it if the bounds did not hold.
constexpr double kWideTolerance = 0.02;

// HeadedRow is a row as a backend leaves it; its sums are off by the relative `error`.
class HeadedRow {
 public:
  HeadedRow(const std::vector<float>& logits, size_t count, float inverse_temperature,
            double tolerance, double error)
      : logits_(logits) {
    std::vector<float> clean = logits;
    for (float& logit : clean) {
      logit = std::isnan(logit) ? -kInfinity : std::min(logit, std::numeric_limits<float>::max());
    }
    tokens_.resize(logits.size());
    std::iota(tokens_.begin(), tokens_.end(), 0);
    std::stable_sort(tokens_.begin(), tokens_.end(),
                     [&](TokenId a, TokenId b) { return clean[a] > clean[b]; });
    double sum = 0;
    double tempered = 0;
    const double greatest = clean[tokens_[0]];
    for (const float logit : clean) {
      if (logit == -kInfinity) continue;
      sum += std::exp(logit - greatest);
      tempered += std::exp((logit - greatest) * inverse_temperature);
    }
    tokens_.resize(std::min(count, tokens_.size()));
    for (const TokenId token : tokens_) values_.push_back(clean[token] + 0.0f);
    head_ = {.tokens = tokens_,
             .logits = values_,
             .exp_sum = sum * (1 + error),
             .tempered_exp_sum = tempered * (1 - error),
             .tolerance = tolerance};
  }
  LogitRow Row() {
    return LogitRow(head_, logits_.size(), [this] {
      ++num_fetched_;
      return std::span<const float>(logits_);
    });
  }
  int num_fetched() const { return num_fetched_; }

 private:
  std::vector<float> logits_;
  std::vector<TokenId> tokens_;
  std::vector<float> values_;
  LogitHead head_;
  int num_fetched_ = 0;
};

std::vector<float> RandomLogits(std::mt19937_64& random, size_t size) {
  std::normal_distribution<float> normal(0, static_cast<float>(1 + random() % 6));
  const bool has_ties = random() % 3 == 0;
  const bool has_holes = random() % 3 == 0;
  std::vector<float> logits(size);
  for (float& logit : logits) {
    logit = has_ties ? std::round(normal(random)) : normal(random);
    if (has_holes && random() % 20 == 0) logit = random() % 2 == 0 ? -kInfinity : kNan;
  }
  if (random() % 30 == 0) logits[random() % size] = kInfinity;
  if (random() % 30 == 0) logits[random() % size] = std::numeric_limits<float>::max();
  if (random() % 60 == 0) std::ranges::fill(logits, random() % 2 == 0 ? -kInfinity : 0.0f);
  return logits;
}

SamplingParams RandomParams(std::mt19937_64& random) {
  const auto share = [&] { return static_cast<float>(random() % 1000) / 999; };
  const auto rarely = [&](int n) { return random() % static_cast<uint64_t>(n) == 0; };
  constexpr float kTemperatures[] = {0, 1, 1, 0.7f, 0.2f, 1.3f, 5, 1e-6f, kNan, kInfinity, 1e-35f};
  return {.temperature = kTemperatures[random() % std::size(kTemperatures)],
          .top_k = rarely(3) ? static_cast<int>(random() % 400) : 0,
          .top_p = rarely(2) ? share() : 1.0f,
          .min_p = rarely(3) ? share() * share() : 0.0f,
          .typical_p = rarely(5) ? share() : 1.0f,
          .top_n_sigma = rarely(8) ? 3 * share() : 0.0f,
          .xtc_probability = rarely(5) ? share() : 0.0f,
          .xtc_threshold = share() / 2,
          .seed = random(),
          .num_logprobs = static_cast<int>(random() % 22) - 1};
}

std::vector<uint64_t> RandomMask(std::mt19937_64& random, size_t size) {
  std::vector<uint64_t> mask;
  if (random() % 3 != 0) return mask;
  const bool is_sparse = random() % 2 == 0;
  for (size_t i = 0; i < (size + 63) / 64; ++i) {
    mask.push_back(is_sparse ? random() & random() & random() & random() & random() : ~random());
  }
  return mask;
}

void ExpectSame(const SampledToken& want, const SampledToken& got) {
  ASSERT_EQ(want.token, got.token);
  ASSERT_EQ(want.is_possible, got.is_possible);
  ASSERT_EQ(std::bit_cast<uint32_t>(want.logprob), std::bit_cast<uint32_t>(got.logprob));
  ASSERT_EQ(want.top.size(), got.top.size());
  for (size_t i = 0; i < want.top.size(); ++i) {
    ASSERT_EQ(want.top[i].token, got.top[i].token);
    ASSERT_EQ(std::bit_cast<uint32_t>(want.top[i].logprob),
              std::bit_cast<uint32_t>(got.top[i].logprob));
  }
}

TEST(LogitRowTest, AHeadGivesWhatTheWholeRowGives) {
  std::mt19937_64 random(41);
  int num_kept = 0;
  for (int round = 0; round < 2500; ++round) {
    SCOPED_TRACE(round);
    const size_t size = random() % 4 == 0 ? 1 + random() % 40 : 200 + random() % 1500;
    const SamplingParams params = RandomParams(random);
    // A bias of 0 is still a bias: it makes the sampler ask for the whole row.
    SamplingParams fetching = params;
    fetching.adjustments.biases = {{.token = 0, .bias = 0.0f}};
    Sampler plain(params);
    Sampler headed(params);
    Sampler fetched(fetching);
    for (int step = 0; step < 4; ++step) {
      const std::vector<float> logits = RandomLogits(random, size);
      const std::vector<uint64_t> mask = RandomMask(random, size);
      const size_t count = random() % 4 == 0 ? 1 + random() % 30 : kHeadTokensMax;
      const double tolerance = round % 2 == 0 ? kTolerance : kWideTolerance;
      const double error = tolerance * (static_cast<double>(random() % 201) / 100 - 1);
      HeadedRow row(logits, count, headed.inverse_temperature(), tolerance, error);
      LogitRow may_fetch = row.Row();
      const SampledToken got = headed.Sample(may_fetch, mask);
      num_kept += 1 - row.num_fetched();
      LogitRow fetches = row.Row();
      ASSERT_NO_FATAL_FAILURE(ExpectSame(fetched.Sample(fetches, mask), got));
      const SampledToken want = plain.Sample(logits, mask);
      ASSERT_EQ(want.token, got.token);
      ASSERT_EQ(want.is_possible, got.is_possible);
      ASSERT_EQ(want.top.size(), got.top.size());
      for (size_t i = 0; i < want.top.size(); ++i) {
        ASSERT_EQ(want.top[i].token, got.top[i].token);
        if (want.top[i].logprob == got.top[i].logprob) continue;  // infinities
        ASSERT_NEAR(want.top[i].logprob, got.top[i].logprob, 1e-4 + 2 * tolerance);
      }
    }
  }
  EXPECT_GT(num_kept, 2500 * 4 / 2);
}

// These parameters are at the bounds of what a head can answer: each of a thousand draws equals
// that of the whole row.
TEST(LogitRowTest, EveryDrawOfASeedIsTheRows) {
  std::mt19937_64 random(43);
  for (const SamplingParams& params :
       {SamplingParams{.seed = 1}, SamplingParams{.temperature = 0.6f, .seed = 2},
        SamplingParams{.temperature = 1.4f, .seed = 3}, SamplingParams{.top_p = 0.95f, .seed = 4},
        SamplingParams{.min_p = 0.01f, .seed = 5}, SamplingParams{.top_k = 40, .seed = 6}}) {
    std::vector<float> logits(4000);
    std::normal_distribution<float> normal(0, 2.5f);
    for (float& logit : logits) logit = normal(random);
    for (size_t i = 0; i < 100; ++i) logits[random() % logits.size()] += 6;
    Sampler plain(params);
    Sampler headed(params);
    const double error = params.seed % 2 == 0 ? kWideTolerance : -kWideTolerance;
    HeadedRow row(logits, kHeadTokensMax, headed.inverse_temperature(), kWideTolerance, error);
    for (int i = 0; i < 1000; ++i) {
      LogitRow may_fetch = row.Row();
      ASSERT_EQ(headed.Sample(may_fetch).token, plain.Sample(logits).token) << i;
    }
  }
}

// Returns logits about as peaked as a trained model's: the two or three most likely tokens have
// nearly all of the probability.
std::vector<float> PeakedLogits(size_t size) {
  std::vector<float> logits(size);
  for (size_t i = 0; i < size; ++i) {
    logits[(i * 7919) % size] = 20 - 2.2f * std::log(static_cast<float>(i + 1));
  }
  return logits;
}

int CountFetched(const SamplingParams& params, std::span<const uint64_t> mask = {}) {
  Sampler sampler(params);
  HeadedRow row(PeakedLogits(32000), kHeadTokensMax, sampler.inverse_temperature(), kTolerance,
                kTolerance);
  for (int i = 0; i < 1000; ++i) {
    LogitRow may_fetch = row.Row();
    sampler.Accept(sampler.Sample(may_fetch, mask).token);
  }
  return row.num_fetched();
}

TEST(LogitRowTest, WhatUsersAskForSeldomNeedsTheRow) {
  EXPECT_EQ(CountFetched({.temperature = 0, .num_logprobs = 20}), 0);
  EXPECT_EQ(CountFetched({.top_k = 40, .top_p = 0.9f, .num_logprobs = 20}), 0);
  EXPECT_EQ(CountFetched({.top_p = 0.95f}), 0);
  EXPECT_EQ(CountFetched({.min_p = 0.05f}), 0);
  EXPECT_EQ(CountFetched({.temperature = 0.7f, .top_k = 256}), 0);
  EXPECT_LT(CountFetched({}), 30);
  EXPECT_LT(CountFetched({.temperature = 0.8f}), 10);
  EXPECT_EQ(CountFetched({.adjustments = {.presence_penalty = 1}}), 999);
  EXPECT_EQ(CountFetched({.top_n_sigma = 1}), 1000);
  std::vector<uint64_t> mask(500, 0x5555555555555555u);
  EXPECT_EQ(CountFetched({.temperature = 0}, mask), 0);
  EXPECT_LT(CountFetched({.top_p = 0.9f}, mask), 10);
  mask.assign(500, 0);
  mask[7] = 3;
  EXPECT_EQ(CountFetched({.temperature = 0}, mask), 1000);
}

}  // namespace
}  // namespace kvgate::sample
