#include "engine/sample/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"

namespace kvgate::sample {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// Bounds the rounding error of a sum of weights, in any order and for any vocabulary.
constexpr double kRoundingMax = 1e-9;

// Maps NaN to -infinity and +infinity to the greatest number, so that differences stay numbers.
float Clean(float logit) {
  return logit > kLowest ? std::min(logit, std::numeric_limits<float>::max()) : kLowest;
}

// Returns e^x for x <= 0, within 1 ulp, with the same bits on every machine: x = k ln 2 + r with
// |r| <= ln 2 / 2, and the Taylor series of e^r to the 13th power (the next term is below 2^-57).
// It has no branch, loop or comparison of doubles, so that the compiler vectorises it.
[[gnu::always_inline]] inline double ExpOfNegative(double x) {
  // Adding this constant rounds to an integer, which then is in the lowest bits.
  constexpr double kRounder = 0x1.8p52;
  const double shifted = x * 1.4426950408889634 + kRounder;
  const double k = shifted - kRounder;
  // ln 2 is split in two parts, so that the product of k and the first part is exact.
  const double r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
  double sum = 1.0 / 6227020800;
  sum = sum * r + 1.0 / 479001600;
  sum = sum * r + 1.0 / 39916800;
  sum = sum * r + 1.0 / 3628800;
  sum = sum * r + 1.0 / 362880;
  sum = sum * r + 1.0 / 40320;
  sum = sum * r + 1.0 / 5040;
  sum = sum * r + 1.0 / 720;
  sum = sum * r + 1.0 / 120;
  sum = sum * r + 1.0 / 24;
  sum = sum * r + 1.0 / 6;
  sum = sum * r + 0.5;
  sum = sum * r + 1.0;
  sum = sum * r + 1.0;
  const double power = std::bit_cast<double>((std::bit_cast<uint64_t>(shifted) + 1023) << 52);
  // The result is 0 below the smallest normal number, -infinity included. The bits of negative
  // numbers grow with their magnitude.
  constexpr int64_t kSign = std::numeric_limits<int64_t>::min();
  const int64_t bits = std::bit_cast<int64_t>(x) | kSign;
  const int64_t mask = -int64_t{bits < std::bit_cast<int64_t>(-708.0)};
  return std::bit_cast<double>(std::bit_cast<int64_t>(sum * power) & mask);
}

#if defined(__x86_64__)
// The same operations, twice as many at once; none is fused, so the bits are the same.
#ifndef __clang__
[[gnu::optimize("O3")]]
#endif
[[gnu::target("avx2")]] void
ExpOfNegativesAvx2(std::span<double> values) {
  for (double& value : values) value = ExpOfNegative(value);
}
#endif

// Replaces each x <= 0 by e^x.
void ExpOfNegatives(std::span<double> values) {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) return ExpOfNegativesAvx2(values);
#endif
  for (double& value : values) value = ExpOfNegative(value);
}

// Adds in 8 lanes in a fixed order: faster than one chain of additions, and as reproducible.
double Sum(std::span<const double> values) {
  double lanes[8] = {};
  size_t i = 0;
  for (; i + 8 <= values.size(); i += 8) {
    for (size_t j = 0; j < 8; ++j) lanes[j] += values[i + j];
  }
  double sum = 0;
  for (; i < values.size(); ++i) sum += values[i];
  for (const double lane : lanes) sum += lane;
  return sum;
}

// The greatest clean logit and the lowest id that has it. It is searched in blocks of lanes,
// because a single running maximum is one long chain of dependent compares: 150 us for 152K logits,
// not 15.
struct Greatest {
  TokenId token = 0;
  float logit = kLowest;
};

Greatest FindGreatest(std::span<const float> logits) {
  constexpr size_t kLanes = 16;
  constexpr size_t kBlock = 512;
  Greatest greatest;
  size_t best_block = 0;
  float best = kLowest;
  size_t begin = 0;
  for (; begin + kBlock <= logits.size(); begin += kBlock) {
    float lanes[kLanes];
    std::fill(std::begin(lanes), std::end(lanes), kLowest);
    const float* row = logits.data() + begin;
    for (size_t i = 0; i < kBlock; i += kLanes) {
      // A comparison with NaN is false and keeps the lane.
      for (size_t j = 0; j < kLanes; ++j) lanes[j] = row[i + j] > lanes[j] ? row[i + j] : lanes[j];
    }
    const float block_max = *std::max_element(std::begin(lanes), std::end(lanes));
    if (block_max > best) {
      best = block_max;
      best_block = begin;
    }
  }
  for (size_t i = begin; i < logits.size(); ++i) {
    if (logits[i] > best) {
      best = logits[i];
      best_block = i;
    }
  }
  if (best == kLowest) return greatest;
  // An earlier block may hold the greatest finite number, which +infinity is clamped to.
  const float greatest_logit = Clean(best);
  size_t token = best > greatest_logit ? 0 : best_block;
  while (Clean(logits[token]) != greatest_logit) ++token;
  return {.token = static_cast<TokenId>(token), .logit = greatest_logit};
}

// Returns the least logit within n standard deviations (of all finite logits) of the greatest.
float FindSigmaBar(std::span<const float> logits, double n) {
  constexpr size_t kLanes = 8;
  const double greatest = FindGreatest(logits).logit;
  double sums[kLanes] = {};
  double squares[kLanes] = {};
  double counts[kLanes] = {};
  const auto add = [&](size_t lane, float logit) {
    // Distances to the greatest logit are as large as the spread, so their squares lose no digits.
    // Logits of -infinity or NaN are left out.
    const bool counted = logit > kLowest;
    const double distance = counted ? double{Clean(logit)} - greatest : 0.0;
    sums[lane] += distance;
    squares[lane] += distance * distance;
    counts[lane] += counted ? 1.0 : 0.0;
  };
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) add(lane, logits[i + lane]);
  }
  for (; i < logits.size(); ++i) add(0, logits[i]);
  const double count = Sum(counts);
  if (count == 0) return kLowest;
  const double mean = Sum(sums) / count;
  const double variance = std::max(Sum(squares) / count - mean * mean, 0.0);
  const double bar = greatest - n * std::sqrt(variance);
  return static_cast<float>(std::max(bar, double{-std::numeric_limits<float>::max()}));
}

struct LikelierFirst {
  template <typename Candidate>
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  }
};

uint64_t SplitMix64(uint64_t& state) {
  state += 0x9E3779B97F4A7C15u;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace

Sampler::Sampler(const SamplingParams& params) : params_(params), adjuster_(params.adjustments) {
  // The authors of xoshiro advise seeding by SplitMix64: similar seeds give unlike states, never
  // all zero.
  uint64_t state = params.seed;
  for (uint64_t& word : random_) word = SplitMix64(state);
}

uint64_t Sampler::NextRandom() {
  const uint64_t result = std::rotl(random_[1] * 5, 7) * 9;
  const uint64_t shifted = random_[1] << 17;
  random_[2] ^= random_[0];
  random_[3] ^= random_[1];
  random_[1] ^= random_[2];
  random_[0] ^= random_[3];
  random_[2] ^= shifted;
  random_[3] = std::rotl(random_[3], 45);
  return result;
}

double Sampler::NextUniform() { return static_cast<double>(NextRandom() >> 11) * 0x1.0p-53; }

float Sampler::inverse_temperature() const {
  return is_greedy() ? 1.0f : std::clamp(1.0f / params_.temperature, 1e-30f, 1e30f);
}

SampledToken Sampler::Sample(std::span<const float> logits, std::span<const uint64_t> mask) {
  LogitRow row(logits);
  return Sample(row, mask);
}

SampledToken Sampler::Sample(LogitRow& row, std::span<const uint64_t> mask) {
  KVGATE_CHECK(row.size() > 0, "no logits to sample from");
  KVGATE_CHECK(mask.empty() || mask.size() * 64 >= row.size(), "a mask is too short");
  const Chance chance = is_greedy() ? Chance{} : TakeChance();
  std::optional<Candidate> chosen;
  if (row.head() != nullptr && adjuster_.is_idle()) {
    chosen = ChooseFromHead(*row.head(), row.size(), mask, chance);
  }
  const bool is_from_head = chosen.has_value();
  if (!is_from_head) chosen = ChooseFromWhole(row.Whole(), mask, chance);
  SampledToken sampled{.token = chosen->token, .is_possible = chosen->logit > kLowest, .top = {}};
  if (params_.num_logprobs >= 0) {
    const auto index = static_cast<size_t>(chosen->token);
    AddLogprobs(row, is_from_head ? chosen->logit : row.Whole()[index], sampled);
  }
  return sampled;
}

Sampler::Candidate Sampler::ChooseFromWhole(std::span<const float> logits,
                                            std::span<const uint64_t> mask, const Chance& chance) {
  const std::span<const float> adjusted = Adjust(logits, mask);
  TokenId token = 0;
  if (is_greedy()) {
    token = FindGreatest(adjusted).token;
  } else {
    GatherCandidates(adjusted);
    token = Draw(chance).token;
  }
  return {.token = token, .logit = adjusted[static_cast<size_t>(token)]};
}

std::span<const float> Sampler::Adjust(std::span<const float> logits,
                                       std::span<const uint64_t> mask) {
  if (adjuster_.is_idle() && mask.empty()) return logits;
  adjusted_.assign(logits.begin(), logits.end());
  adjuster_.Apply(adjusted_);
  for (size_t word = 0; word < mask.size() && word * 64 < adjusted_.size(); ++word) {
    if (mask[word] == ~uint64_t{0}) continue;
    const size_t end = std::min(adjusted_.size(), word * 64 + 64);
    for (size_t i = word * 64; i < end; ++i) {
      if ((mask[word] >> (i % 64) & 1) == 0) adjusted_[i] = kLowest;
    }
  }
  return adjusted_;
}

// Sorts the `count` most likely candidates into `top`; at(i) returns the i-th one, by ascending id.
void Sampler::SelectTop(size_t count, size_t num_candidates, auto at, std::vector<Candidate>& top) {
  // Candidates gather in a buffer of about twice that size. When it is full its lower half is
  // dropped and the bar rises to the least of the upper half: O(n), as hardly any candidate passes
  // the bar after the first few thousand.
  top.clear();
  if (count == 0) return;
  count = std::min(count, num_candidates);
  const size_t room = count * 2 + 64;
  float bar = kLowest;
  const auto halve = [&] {
    const auto nth = top.begin() + static_cast<ptrdiff_t>(count - 1);
    std::nth_element(top.begin(), nth, top.end(), LikelierFirst());
    bar = nth->logit;
    top.resize(count);
  };
  for (size_t i = 0; i < num_candidates; ++i) {
    const Candidate candidate = at(i);
    // Ids ascend, so an equal logit comes after those already held and does not displace them.
    if (!(candidate.logit > bar)) continue;
    top.push_back({.token = candidate.token, .logit = Clean(candidate.logit)});
    if (top.size() == room) halve();
  }
  if (top.size() > count) halve();
  std::sort(top.begin(), top.end(), LikelierFirst());
}

void Sampler::SelectTop(std::span<const float> logits, size_t count) {
  const auto at = [&](size_t i) {
    return Candidate{.token = static_cast<TokenId>(i), .logit = logits[i]};
  };
  SelectTop(count, logits.size(), at, candidates_);
}

float Sampler::WeighCandidates(double temperature) {
  float greatest = kLowest;
  for (const Candidate& candidate : candidates_) greatest = std::max(greatest, candidate.logit);
  WeighCandidates(temperature, greatest);
  return greatest;
}

void Sampler::WeighCandidates(double temperature, float greatest) {
  weights_.resize(candidates_.size());
  for (size_t i = 0; i < candidates_.size(); ++i) {
    weights_[i] = (double{candidates_[i].logit} - greatest) / temperature;
  }
  ExpOfNegatives(weights_);
}

void Sampler::DropLighterThan(double weight) {
  size_t kept = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (weights_[i] < weight) continue;
    candidates_[kept] = candidates_[i];
    weights_[kept++] = weights_[i];
  }
  candidates_.resize(kept);
  weights_.resize(kept);
}

// Sorts only as many candidates as are needed to reach top_p, in runs of growing length.
void Sampler::KeepTopP() {
  WeighCandidates(1.0);
  const double total = Sum(weights_);
  const double wanted = total * double{std::max(params_.top_p, 0.0f)};
  // All tokens lighter than this together weigh less than what may be left out, so none of them is
  // needed; usually these are nearly all of 150K. The factor leaves room for rounding.
  DropLighterThan(0.99 * (total - wanted) / static_cast<double>(candidates_.size()));
  double sum = 0;
  size_t sorted = 0;
  for (size_t run = 256; sorted < candidates_.size(); run *= 4) {
    const size_t length = std::min(run, candidates_.size() - sorted);
    const auto begin = candidates_.begin() + static_cast<ptrdiff_t>(sorted);
    const auto end = begin + static_cast<ptrdiff_t>(length);
    if (end != candidates_.end()) {
      std::nth_element(begin, end, candidates_.end(), LikelierFirst());
    }
    std::sort(begin, end, LikelierFirst());
    weights_.resize(length);
    const float greatest = candidates_.front().logit;
    for (size_t i = 0; i < length; ++i) weights_[i] = double{begin[i].logit} - greatest;
    ExpOfNegatives(weights_);
    for (const double weight : weights_) {
      sum += weight;
      ++sorted;
      if (sum >= wanted) {
        candidates_.resize(sorted);
        return;
      }
    }
  }
}

// The surprise minus the entropy equals a logit's distance to the mean logit, as the logarithm of
// the total cancels out. A histogram of the distances finds where the probabilities reach
// typical_p, so that only one of its buckets is sorted instead of 150K tokens.
Sampler::Typicality Sampler::FindTypicalBar(double wanted) {
  constexpr size_t kNumBuckets = 2048;
  constexpr double kBucketsPerUnit = 32;
  const auto bucket_of = [](double distance) {
    return static_cast<size_t>(std::min(distance * kBucketsPerUnit, double{kNumBuckets - 1}));
  };
  std::array<double, kNumBuckets> bucket_weights = {};
  std::array<uint32_t, kNumBuckets> bucket_counts = {};
  for (size_t i = 0; i < candidates_.size(); ++i) {
    const size_t bucket = bucket_of(distances_[i]);
    bucket_weights[bucket] += weights_[i];
    ++bucket_counts[bucket];
  }
  double sum = 0;
  size_t last = 0;
  for (; last < kNumBuckets; ++last) {
    if (bucket_counts[last] > 0 && sum + bucket_weights[last] >= wanted) break;
    sum += bucket_weights[last];
  }
  Typicality bar{.distance = std::numeric_limits<double>::infinity()};
  if (last == kNumBuckets) return bar;  // rounding kept the sum below `wanted`, so all are kept
  std::vector<std::pair<Typicality, double>> members;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (bucket_of(distances_[i]) != last) continue;
    members.push_back({{distances_[i], candidates_[i].token}, weights_[i]});
  }
  std::sort(members.begin(), members.end());
  for (const auto& [typicality, weight] : members) {
    bar = typicality;
    sum += weight;
    if (sum >= wanted) break;
  }
  return bar;
}

void Sampler::KeepTypical() {
  const double greatest = WeighCandidates(1.0);
  const double total = Sum(weights_);
  distances_.resize(candidates_.size());
  for (size_t i = 0; i < candidates_.size(); ++i) {
    distances_[i] = weights_[i] * (candidates_[i].logit - greatest);
  }
  const double mean = Sum(distances_) / total;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    distances_[i] = std::abs((candidates_[i].logit - greatest) - mean);
  }
  const Typicality bar = FindTypicalBar(total * double{std::max(params_.typical_p, 0.0f)});
  size_t kept = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (bar < Typicality{distances_[i], candidates_[i].token}) continue;
    candidates_[kept++] = candidates_[i];
  }
  candidates_.resize(kept);
}

void Sampler::ExcludeTopChoices() {
  WeighCandidates(1.0);
  const double bar = Sum(weights_) * double{params_.xtc_threshold};
  size_t num_top = 0;
  size_t spared = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (weights_[i] < bar) continue;
    if (num_top++ == 0 || LikelierFirst()(candidates_[spared], candidates_[i])) spared = i;
  }
  if (num_top < 2) return;
  size_t kept = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (weights_[i] < bar || i == spared) candidates_[kept++] = candidates_[i];
  }
  candidates_.resize(kept);
}

void Sampler::GatherCandidates(std::span<const float> logits) {
  const float bar =
      params_.top_n_sigma > 0 ? FindSigmaBar(logits, double{params_.top_n_sigma}) : kLowest;
  if (params_.top_k > 0) {
    SelectTop(logits, static_cast<size_t>(params_.top_k));
    std::erase_if(candidates_, [&](const Candidate& candidate) { return candidate.logit < bar; });
    return;
  }
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > kLowest && logits[i] >= bar)) continue;
    candidates_.push_back({.token = static_cast<TokenId>(i), .logit = Clean(logits[i])});
  }
}

// Draws one number per token, and one more with XTC, whatever the filters keep, so that the random
// state depends only on the number of tokens and the parameters.
Sampler::Chance Sampler::TakeChance() {
  Chance chance{.uniform = NextUniform()};
  const bool xtc_on = params_.xtc_probability > 0.0f && params_.xtc_threshold <= 0.5f;
  chance.xtc_now = xtc_on && NextUniform() < double{params_.xtc_probability};
  return chance;
}

Sampler::Candidate Sampler::Draw(const Chance& chance) {
  if (candidates_.empty()) return {.token = 0, .logit = kLowest};
  if (params_.typical_p < 1.0f) KeepTypical();
  if (params_.top_p < 1.0f) KeepTopP();
  return DrawBehindTopP(chance);
}

// Returns the first candidate at which `sum` plus the weights up to it exceeds the target. If
// rounding keeps it below, returns the last one with a positive weight, or `passed` if none has
// any.
size_t Sampler::Walk(double target, double sum, size_t passed) const {
  constexpr size_t kBlock = 512;
  static_assert(kHeadTokensMax <= kBlock);
  for (size_t begin = 0; begin < weights_.size(); begin += kBlock) {
    const std::span<const double> block =
        std::span(weights_).subspan(begin, std::min(kBlock, weights_.size() - begin));
    // The first block is added one by one, in the order in which a head is walked.
    if (const double of_block = begin == 0 ? 0 : Sum(block);
        begin > 0 && sum + of_block <= target) {
      sum += of_block;
      continue;
    }
    for (size_t i = 0; i < block.size(); ++i) {
      sum += block[i];
      if (sum > target && block[i] > 0) return begin + i;
    }
  }
  for (size_t i = weights_.size(); i-- > 0;) {
    if (weights_[i] > 0) return i;
  }
  return passed;
}

Sampler::Candidate Sampler::DrawBehindTopP(const Chance& chance) {
  if (params_.min_p > 0.0f) {
    WeighCandidates(1.0);
    DropLighterThan(std::min(double{params_.min_p}, 1.0));
  }
  bool is_sorted = params_.top_k > 0 || params_.top_p < 1.0f;
  if (!is_sorted && candidates_.size() <= kHeadTokensMax) {
    std::sort(candidates_.begin(), candidates_.end(), LikelierFirst());
    is_sorted = true;
  }
  if (chance.xtc_now) ExcludeTopChoices();
  if (is_sorted) {
    head_.clear();
  } else {
    // The positions in candidates_ serve as ids, since both ascend.
    const auto at = [&](size_t i) {
      return Candidate{.token = static_cast<TokenId>(i), .logit = candidates_[i].logit};
    };
    SelectTop(kHeadTokensMax, candidates_.size(), at, head_);
  }
  WeighCandidates(double{params_.temperature},
                  is_sorted ? candidates_.front().logit : head_.front().logit);
  const double target = chance.uniform * Sum(weights_);
  double sum = 0;
  size_t passed = 0;
  // The weight of a passed candidate is set to 0, so that Walk does not count it again.
  for (const Candidate& likely : head_) {
    const auto i = static_cast<size_t>(likely.token);
    const double weight = std::exchange(weights_[i], 0.0);
    if (weight > 0) passed = i;
    sum += weight;
    if (sum > target) return candidates_[passed];
  }
  return candidates_[Walk(target, sum, passed)];
}

std::optional<Sampler::Candidate> Sampler::ChooseFromHead(const LogitHead& head, size_t num_logits,
                                                          std::span<const uint64_t> mask,
                                                          const Chance& chance) {
  candidates_.clear();
  for (size_t i = 0; i < head.tokens.size(); ++i) {
    const auto token = static_cast<size_t>(head.tokens[i]);
    if (head.logits[i] == kLowest) break;
    if (!mask.empty() && (mask[token / 64] >> (token % 64) & 1) == 0) continue;
    candidates_.push_back({.token = head.tokens[i], .logit = head.logits[i]});
  }
  const bool is_whole = head.tokens.size() >= num_logits || head.logits.back() == kLowest;
  if (candidates_.empty()) {
    if (!is_whole || !mask.empty()) return std::nullopt;
    return Candidate{.token = 0, .logit = kLowest};
  }
  if (is_greedy()) return candidates_.front();
  if (params_.top_n_sigma > 0) return std::nullopt;
  if (params_.top_k > 0) {
    const auto count = static_cast<size_t>(params_.top_k);
    if (!is_whole && candidates_.size() < count) return std::nullopt;
    candidates_.resize(std::min(count, candidates_.size()));
    return Draw(chance);
  }
  if (is_whole) {
    std::sort(candidates_.begin(), candidates_.end(),
              [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
    return Draw(chance);
  }
  return DrawFromOpenHead(head, !mask.empty(), chance);
}

std::optional<Sampler::Candidate> Sampler::DrawFromOpenHead(const LogitHead& head, bool is_masked,
                                                            const Chance& chance) {
  if (params_.typical_p < 1.0f) return std::nullopt;
  if (params_.top_p < 1.0f) {
    WeighCandidates(1.0);
    if (!KeepTopPOfHead(BoundTotal(head, is_masked, 1.0))) return std::nullopt;
    return DrawBehindTopP(chance);
  }
  if (params_.min_p > 0.0f) {
    // A token outside the head weighs at most as much as the head's last one, except for rounding.
    double last = double{head.logits.back()} - candidates_.front().logit;
    ExpOfNegatives({&last, 1});
    if (!(last < (1 - kRoundingMax) * std::min(double{params_.min_p}, 1.0))) return std::nullopt;
    return DrawBehindTopP(chance);
  }
  // The head's tempered sum is of no use for another temperature.
  if (chance.xtc_now || inverse_temperature() != 1.0f / params_.temperature) return std::nullopt;
  WeighCandidates(double{params_.temperature});
  return DrawWithin(BoundTotal(head, is_masked, double{params_.temperature}), chance.uniform);
}

// REQUIRES: weights_ are the candidates' at `temperature`, which is 1 or params_.temperature.
Sampler::Bounds Sampler::BoundTotal(const LogitHead& head, bool is_masked,
                                    double temperature) const {
  // The tolerance counts twice, because the temperature of the tempered sum was rounded.
  const double rest_factor = 2 * head.tolerance + kRoundingMax;
  const double row_sum = temperature == 1.0 ? head.exp_sum : head.tempered_exp_sum;
  const double sum = Sum(weights_);
  if (!is_masked) {
    return {.low = std::max(sum, row_sum * (1 - rest_factor)) * (1 - kRoundingMax),
            .high = std::max(sum, row_sum * (1 + rest_factor)) * (1 + kRoundingMax)};
  }
  // Behind the head the mask may allow no token, for the lower bound, or all, for the upper one.
  std::vector<double> weights(head.logits.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] = (double{head.logits[i]} - head.logits[0]) / temperature;
  }
  ExpOfNegatives(weights);
  const double rest =
      std::max(0.0, row_sum * (1 + rest_factor) - Sum(weights) * (1 - kRoundingMax));
  const double unit = std::exp((double{head.logits[0]} - candidates_.front().logit) / temperature);
  return {.low = sum * (1 - kRoundingMax), .high = (sum + rest * unit) * (1 + kRoundingMax)};
}

// Does what KeepTopP does, or returns false if the bounds do not decide it. REQUIRES: the
// candidates are the row's first ones in order, and weights_ are theirs.
bool Sampler::KeepTopPOfHead(const Bounds& total) {
  const double share = std::max(params_.top_p, 0.0f);
  double sum = 0;
  for (size_t i = 0; i < weights_.size(); ++i) {
    sum += weights_[i];
    if (!(sum >= total.low * share)) continue;
    candidates_.resize(i + 1);
    return sum >= total.high * share;
  }
  return false;
}

// Draws as DrawBehindTopP does, or returns nullopt if the bounds do not decide it.
std::optional<Sampler::Candidate> Sampler::DrawWithin(const Bounds& total, double uniform) {
  double sum = 0;
  for (size_t i = 0; i < weights_.size() && weights_[i] > 0; ++i) {
    sum += weights_[i];
    if (!(sum > total.low * uniform)) continue;
    return sum > total.high * uniform ? std::optional(candidates_[i]) : std::nullopt;
  }
  return std::nullopt;
}

void Sampler::AddLogprobs(LogitRow& row, float chosen, SampledToken& sampled) {
  const LogitHead* head = row.head();
  double greatest = 0;
  double log_total = 0;
  if (head != nullptr) {
    greatest = head->logits[0];
    log_total = std::log(head->exp_sum);
  } else {
    const std::span<const float> logits = row.Whole();
    greatest = FindGreatest(logits).logit;
    weights_.resize(logits.size());
    for (size_t i = 0; i < logits.size(); ++i) weights_[i] = double{Clean(logits[i])} - greatest;
    ExpOfNegatives(weights_);
    log_total = std::log(Sum(weights_));
  }
  const auto logprob = [&](float logit) {
    const float clean = Clean(logit);
    if (clean == kLowest) return kLowest;
    return static_cast<float>((double{clean} - greatest) - log_total);
  };
  sampled.logprob = logprob(chosen);
  const auto count = static_cast<size_t>(params_.num_logprobs);
  if (head != nullptr && (count <= head->tokens.size() || head->tokens.size() >= row.size())) {
    for (size_t i = 0; i < std::min(count, head->tokens.size()); ++i) {
      if (head->logits[i] == kLowest) break;
      sampled.top.push_back({.token = head->tokens[i], .logprob = logprob(head->logits[i])});
    }
    return;
  }
  SelectTop(row.Whole(), count);
  for (const Candidate& candidate : candidates_) {
    sampled.top.push_back({.token = candidate.token, .logprob = logprob(candidate.logit)});
  }
}

}  // namespace kvgate::sample
