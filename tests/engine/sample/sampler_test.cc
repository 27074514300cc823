#include "engine/sample/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace kvgate::sample {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> RandomLogits(std::mt19937_64& random, size_t size, bool with_ties) {
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(size);
  for (float& logit : logits) {
    logit = with_ties ? std::round(normal(random)) : normal(random);
    if (random() % 50 == 0) logit = -kInfinity;
    if (random() % 50 == 0) logit = kNan;
  }
  return logits;
}

double Probability(double logit, double greatest) {
  return std::isnan(logit) ? 0.0 : std::exp(logit - greatest);
}

// The filters by full sorting, as their definitions read: the tokens left and their probabilities.
std::map<TokenId, double> FilterNaively(const std::vector<float>& logits,
                                        const SamplingParams& params) {
  std::vector<TokenId> order;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isnan(logits[i]) && logits[i] != -kInfinity) order.push_back(static_cast<TokenId>(i));
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
  if (params.top_k > 0 && order.size() > static_cast<size_t>(params.top_k)) {
    order.resize(static_cast<size_t>(params.top_k));
  }
  const double greatest = logits[order[0]];
  const auto p = [&](TokenId id) { return Probability(logits[id], greatest); };
  if (params.top_p < 1) {
    double total = 0;
    for (const TokenId id : order) total += p(id);
    double sum = 0;
    size_t kept = 0;
    while (kept < order.size() && (kept == 0 || sum < total * double{params.top_p})) {
      sum += p(order[kept++]);
    }
    order.resize(kept);
  }
  std::erase_if(order, [&](TokenId id) { return p(id) < double{params.min_p}; });
  std::map<TokenId, double> left;
  double total = 0;
  for (const TokenId id : order) {
    left[id] = std::exp((logits[id] - greatest) / double{params.temperature});
    total += left[id];
  }
  for (auto& [id, probability] : left) probability /= total;
  return left;
}

// Draws many times and compares with the distribution that `expected` says: Pearson's chi-square,
// rare tokens pooled, against its mean plus five standard deviations (seeds are fixed: no flakes).
void ExpectDistribution(const std::vector<float>& logits, const SamplingParams& params,
                        int num_draws) {
  const std::map<TokenId, double> expected = FilterNaively(logits, params);
  Sampler sampler(params);
  std::map<TokenId, int> counts;
  for (int i = 0; i < num_draws; ++i) ++counts[sampler.Sample(logits).token];
  double chi_square = 0;
  int degrees = -1;
  double pooled_expected = 0;
  double pooled_count = 0;
  for (const auto& [id, probability] : expected) {
    const double mean = probability * num_draws;
    if (mean < 10) {
      pooled_expected += mean;
      pooled_count += counts[id];
      continue;
    }
    chi_square += (counts[id] - mean) * (counts[id] - mean) / mean;
    ++degrees;
  }
  if (pooled_expected >= 10) {
    chi_square +=
        (pooled_count - pooled_expected) * (pooled_count - pooled_expected) / pooled_expected;
    ++degrees;
  }
  EXPECT_LT(chi_square, degrees + 5 * std::sqrt(2.0 * std::max(degrees, 1)) + 1e-9);
  for (const auto& [id, count] : counts) EXPECT_TRUE(expected.contains(id)) << id;
}

TEST(SamplerTest, DrawsFollowTheSoftmaxAtEveryTemperature) {
  std::mt19937_64 random(19);
  for (const float temperature : {0.3f, 1.0f, 2.5f}) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      ExpectDistribution(RandomLogits(random, 60, false),
                         {.temperature = temperature, .seed = seed}, 20000);
    }
  }
}

TEST(SamplerTest, EveryFilterAndAllTogetherLeaveTheDistributionOfTheirDefinitions) {
  std::mt19937_64 random(23);
  for (const SamplingParams& params :
       {SamplingParams{.top_k = 7}, SamplingParams{.top_p = 0.8f}, SamplingParams{.min_p = 0.05f},
        SamplingParams{.temperature = 0.7f, .top_k = 20, .top_p = 0.9f, .min_p = 0.02f},
        SamplingParams{.temperature = 1.5f, .top_k = 500, .top_p = 0.5f, .seed = 3}}) {
    ExpectDistribution(RandomLogits(random, 200, false), params, 20000);
  }
}

TEST(SamplerTest, TheTokensLeftByTheFiltersAreThoseOfTheDefinitionsWithTiesToo) {
  std::mt19937_64 random(29);
  for (int round = 0; round < 300; ++round) {
    const std::vector<float> logits = RandomLogits(random, 5 + random() % 60, round % 2 == 0);
    // A high temperature makes every token that is left come up.
    const SamplingParams params = {
        .temperature = 1000.0f,
        .top_k = static_cast<int>(random() % 20),
        .top_p = random() % 2 == 0 ? 1.0f : static_cast<float>(random() % 100) / 100,
        .min_p = random() % 2 == 0 ? 0.0f : static_cast<float>(random() % 100) / 300,
        .seed = random()};
    const std::map<TokenId, double> expected = FilterNaively(logits, params);
    Sampler sampler(params);
    std::set<TokenId> seen;
    for (int i = 0; i < 1500; ++i) seen.insert(sampler.Sample(logits).token);
    ASSERT_EQ(seen.size(), expected.size()) << round;
    for (const TokenId id : seen) ASSERT_TRUE(expected.contains(id)) << round;
  }
}

TEST(SamplerTest, TemperatureZeroTakesTheLowestOfTheGreatest) {
  std::mt19937_64 random(31);
  for (int round = 0; round < 500; ++round) {
    const std::vector<float> logits = RandomLogits(random, 1 + random() % 3000, round % 2 == 0);
    TokenId expected = 0;
    float best = -kInfinity;
    for (size_t i = 0; i < logits.size(); ++i) {
      if (logits[i] > best) {
        best = logits[i];
        expected = static_cast<TokenId>(i);
      }
    }
    ASSERT_EQ(Sampler({.temperature = 0}).Sample(logits).token, expected);
  }
}

TEST(SamplerTest, NanAndInfinitiesAreHarmless) {
  for (const float temperature : {0.0f, 1.0f, kNan}) {
    for (const int top_k : {0, 2}) {
      const SamplingParams params = {
          .temperature = temperature, .top_k = top_k, .top_p = 0.9f, .num_logprobs = 3};
      EXPECT_EQ(Sampler(params).Sample(std::vector<float>(4, kNan)).token, 0);
      EXPECT_EQ(Sampler(params).Sample(std::vector<float>(4, -kInfinity)).top.size(), 0u);
      const SampledToken sampled =
          Sampler(params).Sample(std::vector<float>{kNan, 1, kInfinity, -kInfinity, 2});
      EXPECT_EQ(sampled.token, 2);
      EXPECT_EQ(sampled.logprob, 0);
      ASSERT_EQ(sampled.top.size(), 3u);
      EXPECT_EQ(sampled.top[1].token, 4);
    }
  }
}

TEST(SamplerTest, LogprobsAreThoseOfTheRawLogitsWhateverTheFilters) {
  std::mt19937_64 random(37);
  for (int round = 0; round < 50; ++round) {
    std::vector<float> logits = RandomLogits(random, 5000, round % 2 == 0);
    for (float& logit : logits) logit += 300;  // exp of it overflows a float
    double total = 0;
    for (const float logit : logits) total += Probability(logit, 300);
    std::vector<TokenId> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::erase_if(order, [&](TokenId id) { return !(logits[id] > -kInfinity); });
    std::stable_sort(order.begin(), order.end(),
                     [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
    Sampler sampler({.temperature = 0.5f, .top_k = 3, .num_logprobs = 20});
    const SampledToken sampled = sampler.Sample(logits);
    EXPECT_NEAR(sampled.logprob, logits[sampled.token] - 300 - std::log(total), 1e-5);
    ASSERT_EQ(sampled.top.size(), 20u);
    for (size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(sampled.top[i].token, order[i]);
      EXPECT_NEAR(sampled.top[i].logprob, logits[order[i]] - 300 - std::log(total), 1e-5);
    }
  }
}

TEST(SamplerTest, ASeedGivesOneSequenceOnEveryMachine) {
  std::vector<float> logits;
  for (int i = 0; i < 1000; ++i) logits.push_back(static_cast<float>((i * 7919) % 1000) / 250);
  std::vector<TokenId> drawn;
  Sampler sampler({.temperature = 0.8f, .top_p = 0.95f, .min_p = 0.02f, .seed = 42});
  for (int i = 0; i < 8; ++i) drawn.push_back(sampler.Sample(logits).token);
  // From an implementation of its own: a change here changes what every user's seed gives.
  EXPECT_EQ(drawn, (std::vector<TokenId>{457, 532, 694, 808, 514, 633, 398, 424}));
}

TEST(SamplerTest, TheRandomStateMovesOncePerTokenWhateverTheFiltersLeave) {
  const std::vector<float> wide(50, 0.0f);
  const std::vector<float> narrow = {0, 100};
  Sampler a({.seed = 9});
  Sampler b({.seed = 9});
  a.Sample(wide);
  b.Sample(narrow);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(a.Sample(wide).token, b.Sample(wide).token);
}

}  // namespace
}  // namespace kvgate::sample
