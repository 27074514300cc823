#include "engine/sample/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <utility>

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

// Keeps the tokens that top_n_sigma leaves, by its definition.
void KeepSigmaNaively(const std::vector<float>& logits, double n, std::vector<TokenId>& order) {
  double sum = 0;
  for (const TokenId id : order) sum += logits[id];
  const double mean = sum / static_cast<double>(order.size());
  double squares = 0;
  for (const TokenId id : order) squares += (logits[id] - mean) * (logits[id] - mean);
  const double sigma = std::sqrt(squares / static_cast<double>(order.size()));
  const double greatest = logits[order[0]];
  std::erase_if(order, [&](TokenId id) { return logits[id] < greatest - n * sigma; });
}

// Likewise keeps those of typical_p, with entropy and surprise spelled out. `order` stays sorted by
// likelihood.
void KeepTypicalNaively(const std::vector<float>& logits, double wanted,
                        std::vector<TokenId>& order) {
  const double greatest = logits[order[0]];
  double total = 0;
  for (const TokenId id : order) total += Probability(logits[id], greatest);
  const auto p = [&](TokenId id) { return Probability(logits[id], greatest) / total; };
  double entropy = 0;
  for (const TokenId id : order) entropy -= p(id) * std::log(p(id));
  const auto distance = [&](TokenId id) { return std::abs(-std::log(p(id)) - entropy); };
  std::vector<TokenId> typical = order;
  std::sort(typical.begin(), typical.end(), [&](TokenId a, TokenId b) {
    return std::pair(distance(a), a) < std::pair(distance(b), b);
  });
  double sum = 0;
  size_t kept = 0;
  while (kept < typical.size() && (kept == 0 || sum < wanted)) sum += p(typical[kept++]);
  const std::set<TokenId> left(typical.begin(), typical.begin() + static_cast<ptrdiff_t>(kept));
  std::erase_if(order, [&](TokenId id) { return !left.contains(id); });
}

void ExcludeTopNaively(const std::vector<float>& logits, double threshold,
                       std::vector<TokenId>& order) {
  const double greatest = logits[order[0]];
  double total = 0;
  for (const TokenId id : order) total += Probability(logits[id], greatest);
  size_t num_top = 0;
  while (num_top < order.size() &&
         Probability(logits[order[num_top]], greatest) / total >= threshold) {
    ++num_top;
  }
  if (num_top > 1) order.erase(order.begin(), order.begin() + static_cast<ptrdiff_t>(num_top - 1));
}

std::map<TokenId, double> SoftmaxNaively(const std::vector<float>& logits, double temperature,
                                         const std::vector<TokenId>& order) {
  std::map<TokenId, double> left;
  double total = 0;
  for (const TokenId id : order) {
    left[id] = std::exp((double{logits[id]} - logits[order[0]]) / temperature);
    total += left[id];
  }
  for (auto& [id, probability] : left) probability /= total;
  return left;
}

// Applies the filters by full sorting, as their definitions read. Returns the tokens left and their
// probabilities.
std::map<TokenId, double> FilterNaively(const std::vector<float>& logits,
                                        const SamplingParams& params) {
  std::vector<TokenId> order;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isnan(logits[i]) && logits[i] != -kInfinity) order.push_back(static_cast<TokenId>(i));
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
  if (params.top_n_sigma > 0) KeepSigmaNaively(logits, double{params.top_n_sigma}, order);
  if (params.top_k > 0 && order.size() > static_cast<size_t>(params.top_k)) {
    order.resize(static_cast<size_t>(params.top_k));
  }
  if (params.typical_p < 1) KeepTypicalNaively(logits, double{params.typical_p}, order);
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
  const double temperature = double{params.temperature};
  std::map<TokenId, double> without = SoftmaxNaively(logits, temperature, order);
  if (params.xtc_probability == 0) return without;
  ExcludeTopNaively(logits, double{params.xtc_threshold}, order);
  std::map<TokenId, double> mixed;
  const double chance = double{params.xtc_probability};
  for (const auto& [id, probability] : SoftmaxNaively(logits, temperature, order)) {
    mixed[id] += chance * probability;
  }
  if (chance == 1) return mixed;
  for (const auto& [id, probability] : without) mixed[id] += (1 - chance) * probability;
  return mixed;
}

// Draws many times and compares with the distribution that FilterNaively gives: Pearson's
// chi-square, rare tokens pooled, against its mean plus five standard deviations. Seeds are fixed,
// so the test does not flake.
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
        SamplingParams{.temperature = 1.5f, .top_k = 500, .top_p = 0.5f, .seed = 3},
        SamplingParams{.typical_p = 0.6f}, SamplingParams{.top_n_sigma = 1.2f},
        SamplingParams{.xtc_probability = 0.4f, .xtc_threshold = 0.05f},
        SamplingParams{.temperature = 1.2f,
        .top_k = 60,
        .top_p = 0.97f,
        .min_p = 0.01f,
        .typical_p = 0.95f,
        .top_n_sigma = 2.0f,
        .xtc_probability = 0.5f,
        .xtc_threshold = 0.1f,
        .seed = 5}}) {
    ExpectDistribution(RandomLogits(random, 200, false), params, 20000);
  }
}

TEST(SamplerTest, TheTokensLeftByTheFiltersAreThoseOfTheDefinitionsWithTiesToo) {
  std::mt19937_64 random(29);
  for (int round = 0; round < 600; ++round) {
    const std::vector<float> logits = RandomLogits(random, 5 + random() % 60, round % 2 == 0);
    // At a high temperature, every token that is left comes up.
    const SamplingParams params = {
        .temperature = 1000.0f,
        .top_k = static_cast<int>(random() % 20),
        .top_p = random() % 2 == 0 ? 1.0f : static_cast<float>(random() % 100) / 100,
        .min_p = random() % 2 == 0 ? 0.0f : static_cast<float>(random() % 100) / 300,
        .typical_p = random() % 2 == 0 ? 1.0f : static_cast<float>(random() % 100) / 99.7f,
        .top_n_sigma = random() % 2 == 0 ? 0.0f : static_cast<float>(random() % 100) / 31.3f,
        .xtc_probability = random() % 2 == 0 ? 0.0f : 1.0f,
        .xtc_threshold = static_cast<float>(random() % 100) / 173,
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
    for (float& logit : logits) logit += 300;  // exp of such a logit overflows a float
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

// Returns the tokens that come up; at a high temperature every token that is left does.
std::set<TokenId> TokensLeft(const std::vector<float>& logits, SamplingParams params) {
  params.temperature = 1000;
  Sampler sampler(params);
  std::set<TokenId> seen;
  for (int i = 0; i < 500; ++i) seen.insert(sampler.Sample(logits).token);
  return seen;
}

std::vector<float> LogitsOf(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

TEST(SamplerTest, TypicalPKeepsWhatIsNearestToTheEntropy) {
  // The surprises are 0.51, 1.61, 2.30 and 2.30; the entropy is 1.09; the distances are 0.58, 0.52,
  // 1.21 and 1.21.
  const std::vector<float> logits = LogitsOf({0.6, 0.2, 0.1, 0.1});
  EXPECT_EQ(TokensLeft(logits, {.typical_p = 0.15f}), (std::set<TokenId>{1}));
  EXPECT_EQ(TokensLeft(logits, {.typical_p = 0.7f}), (std::set<TokenId>{0, 1}));
  EXPECT_EQ(TokensLeft(logits, {.typical_p = 0.85f}), (std::set<TokenId>{0, 1, 2}));
  EXPECT_EQ(TokensLeft(logits, {.typical_p = 0.0f}), (std::set<TokenId>{1}));
}

TEST(SamplerTest, TopNSigmaMeasuresFromTheGreatestLogit) {
  const std::vector<float> logits = {2, 4, 4, 4, 5, 5, 7, 9, -kInfinity, 0, 3, 1};
  const double mean = 44.0 / 11;
  double squares = 0;
  for (const float logit : logits) squares += logit > -kInfinity ? std::pow(logit - mean, 2) : 0;
  const auto n = [&](double distance) {
    return static_cast<float>(distance / std::sqrt(squares / 11));
  };
  EXPECT_EQ(TokensLeft(logits, {.top_n_sigma = n(1.9)}), (std::set<TokenId>{7}));
  EXPECT_EQ(TokensLeft(logits, {.top_n_sigma = n(2.1)}), (std::set<TokenId>{6, 7}));
  EXPECT_EQ(TokensLeft(logits, {.top_k = 3, .top_n_sigma = n(4.1)}), (std::set<TokenId>{4, 6, 7}));
  EXPECT_EQ(TokensLeft(std::vector<float>(4, 1.5f), {.top_n_sigma = 1.0f}).size(), 4u);
}

TEST(SamplerTest, XtcLeavesTheLeastLikelyOfTheTopChoices) {
  const std::vector<float> logits = LogitsOf({0.4, 0.3, 0.2, 0.06, 0.04});
  const auto left = [&](float threshold) {
    return TokensLeft(logits, {.xtc_probability = 1.0f, .xtc_threshold = threshold});
  };
  EXPECT_EQ(left(0.15f), (std::set<TokenId>{2, 3, 4}));
  EXPECT_EQ(left(0.25f), (std::set<TokenId>{1, 2, 3, 4}));
  EXPECT_EQ(left(0.35f).size(), 5u);
  EXPECT_EQ(left(0.0f), (std::set<TokenId>{4}));
  EXPECT_EQ(TokensLeft(LogitsOf({0.5, 0.5}), {.xtc_probability = 1.0f, .xtc_threshold = 0.51f}),
            (std::set<TokenId>{0, 1}));
}

TEST(SamplerTest, TheFiltersApplyInTheOrderOfTheHeader) {
  const std::vector<float> logits = LogitsOf({0.5, 0.2, 0.2, 0.06, 0.04});
  // top_k applies before top_p: of three tokens, the first two have 0.78; of all five, 0.7.
  EXPECT_EQ(TokensLeft(logits, {.top_k = 3, .top_p = 0.75f}), (std::set<TokenId>{0, 1}));
  EXPECT_EQ(TokensLeft(logits, {.top_p = 0.75f}), (std::set<TokenId>{0, 1, 2}));
  // typical_p applies before min_p: it drops the most likely token, after which the others are
  // equally likely.
  const std::vector<float> peaked = LogitsOf({0.4, 0.15, 0.15, 0.15, 0.15});
  EXPECT_EQ(TokensLeft(peaked, {.min_p = 0.5f, .typical_p = 0.59f}),
            (std::set<TokenId>{1, 2, 3, 4}));
  // min_p applies before xtc: tokens that min_p has dropped no longer make the others less
  // probable.
  EXPECT_EQ(TokensLeft(logits, {.min_p = 0.3f, .xtc_probability = 1.0f, .xtc_threshold = 0.21f}),
            (std::set<TokenId>{2}));
  // Temperature applies last: at 1000 all tokens are about equally likely, and top_p still keeps
  // one.
  EXPECT_EQ(TokensLeft(logits, {.top_p = 0.4f}), (std::set<TokenId>{0}));
}

TEST(SamplerTest, GreedyTakesTheGreatestAfterBiasAndPenalties) {
  const std::vector<float> logits = {1, 5, 4, 4.5f};
  EXPECT_EQ(Sampler({.temperature = 0, .adjustments = {.biases = {{.token = 0, .bias = 100}}}})
                .Sample(logits)
                .token,
            0);
  Sampler sampler({.temperature = 0, .adjustments = {.repetition_penalty = 2.0f}});
  sampler.AcceptPrompt(std::vector<TokenId>{1});
  std::vector<TokenId> chosen;
  for (int i = 0; i < 3; ++i) {
    chosen.push_back(sampler.Sample(logits).token);
    sampler.Accept(chosen.back());
  }
  EXPECT_EQ(chosen, (std::vector<TokenId>{3, 2, 1}));
}

TEST(SamplerTest, ABannedTokenNeverComesAndItsLogprobStaysThatOfTheModel) {
  const std::vector<float> logits = LogitsOf({0.9, 0.06, 0.04});
  Sampler banned({.adjustments = {.biases = {{.token = 0, .bias = -100}}}, .num_logprobs = 1});
  for (int i = 0; i < 2000; ++i) {
    const SampledToken sampled = banned.Sample(logits);
    ASSERT_NE(sampled.token, 0);
    ASSERT_NEAR(sampled.logprob, logits[static_cast<size_t>(sampled.token)], 1e-6);
    ASSERT_EQ(sampled.top[0].token, 0);
    ASSERT_NEAR(sampled.top[0].logprob, std::log(0.9), 1e-6);
  }
}

TEST(SamplerTest, OnlyTokensOfTheMaskAreDrawnByEverySamplerAndLogprobsStayTheModels) {
  std::vector<float> logits(200);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 7);
  std::vector<uint64_t> mask = {0, uint64_t{1} << 5 | uint64_t{1} << 6, 0, 1};
  for (const float temperature : {0.0f, 1.0f}) {
    for (const int top_k : {0, 3}) {
      Sampler sampler({.temperature = temperature, .top_k = top_k, .top_p = 0.99f, .seed = 4});
      for (int i = 0; i < 50; ++i) {
        const SampledToken sampled = sampler.Sample(logits, mask);
        ASSERT_TRUE(sampled.is_possible);
        ASSERT_TRUE(sampled.token == 69 || sampled.token == 70 || sampled.token == 192);
      }
    }
  }
  Sampler greedy({.temperature = 0, .num_logprobs = 1});
  const SampledToken sampled = greedy.Sample(logits, mask);
  EXPECT_EQ(sampled.token, 69);  // its logit is 6, the greatest
  EXPECT_EQ(sampled.top[0].token, 6);
  EXPECT_FLOAT_EQ(sampled.logprob, sampled.top[0].logprob);
  mask = {uint64_t{1} << 9, 0, 0, 0};
  for (const float temperature : {0.0f, 1.0f}) {
    Sampler banned({.temperature = temperature, .adjustments = {.biases = {{9, -100}}}});
    EXPECT_FALSE(banned.Sample(logits, mask).is_possible);
  }
}

TEST(SamplerTest, ASeedGivesOneSequenceOnEveryMachine) {
  std::vector<float> logits;
  for (int i = 0; i < 1000; ++i) logits.push_back(static_cast<float>((i * 7919) % 1000) / 250);
  std::vector<TokenId> drawn;
  Sampler sampler({.temperature = 0.8f, .top_p = 0.95f, .min_p = 0.02f, .seed = 42});
  for (int i = 0; i < 8; ++i) drawn.push_back(sampler.Sample(logits).token);
  // The expected tokens come from an independent implementation. A change here changes the output
  // of every user's seed.
  EXPECT_EQ(drawn, (std::vector<TokenId>{457, 532, 694, 808, 514, 633, 398, 424}));
}

TEST(SamplerTest, TheRandomStateMovesAlikeForEveryTokenWhateverTheFiltersLeave) {
  const std::vector<float> wide(50, 0.0f);
  const std::vector<float> narrow = {0, 100};
  for (const float xtc_probability : {0.0f, 0.5f}) {
    const SamplingParams params = {.xtc_probability = xtc_probability, .xtc_threshold = 0.01f};
    Sampler a(params);
    Sampler b(params);
    a.Sample(wide);
    b.Sample(narrow);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(a.Sample(wide).token, b.Sample(wide).token);
  }
}

}  // namespace
}  // namespace kvgate::sample
