#include "engine/sample/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include <kvgate/check.h>

namespace kvgate::sample {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// NaN as -infinity, +infinity as the greatest number, so that differences stay numbers.
float Clean(float logit) {
  return logit > kLowest ? std::min(logit, std::numeric_limits<float>::max()) : kLowest;
}

// e^x for x <= 0, within 1 ulp, the same bits on every machine: x = k ln 2 + r with |r| <= ln 2 /
// 2, and the Taylor series of e^r to the 13th power (the next term is below 2^-57). No branch, no
// loop and no comparison of doubles, so that the compiler makes vectors of it.
[[gnu::always_inline]] inline double ExpOfNegative(double x) {
  // Adding it rounds to an integer, which then stands in the lowest bits.
  constexpr double kRounder = 0x1.8p52;
  const double shifted = x * 1.4426950408889634 + kRounder;
  const double k = shifted - kRounder;
  // ln 2 in two parts, so that k * (the first) is exact.
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
  // 0 below the smallest normal number, -infinity included. Bits of negative numbers grow with
  // their magnitude.
  constexpr int64_t kSign = std::numeric_limits<int64_t>::min();
  const int64_t bits = std::bit_cast<int64_t>(x) | kSign;
  const int64_t mask = -int64_t{bits < std::bit_cast<int64_t>(-708.0)};
  return std::bit_cast<double>(std::bit_cast<int64_t>(sum * power) & mask);
}

#if defined(__x86_64__)
// The same operations, twice as many at once: no fused ones, so the same bits.
[[gnu::target("avx2"), gnu::optimize("O3")]] void ExpOfNegativesAvx2(std::span<double> values) {
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

// In lanes, in a fixed order: faster than one chain of additions and as reproducible.
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

// The greatest clean logit and the lowest id that has it. Blocks of lanes, because a single running
// maximum is one long chain of dependent compares: 152K logits would take 150 us instead of 15.
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
  size_t token = best_block;
  while (logits[token] != best) ++token;
  return {.token = static_cast<TokenId>(token), .logit = Clean(best)};
}

// The least logit that is within n standard deviations (of all finite logits) of the greatest.
float FindSigmaBar(std::span<const float> logits, double n) {
  constexpr size_t kLanes = 8;
  const double greatest = FindGreatest(logits).logit;
  double sums[kLanes] = {};
  double squares[kLanes] = {};
  double counts[kLanes] = {};
  const auto add = [&](size_t lane, float logit) {
    // Distances to the greatest: as large as the spread, so that squares lose no digits. A
    // logit of -infinity or NaN counts nothing.
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
  // The authors of xoshiro advise seeding by SplitMix64: similar seeds give unlike states, none
  // zero.
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

SampledToken Sampler::Sample(std::span<const float> logits, std::span<const uint64_t> mask) {
  KVGATE_CHECK(!logits.empty(), "no logits to sample from");
  KVGATE_CHECK(mask.empty() || mask.size() * 64 >= logits.size(), "a mask is too short");
  SampledToken sampled;
  const std::span<const float> adjusted = Adjust(logits, mask);
  // `!(> 0)`: a temperature that is no number is greedy, too.
  sampled.token = !(params_.temperature > 0) ? FindGreatest(adjusted).token : Draw(adjusted);
  sampled.is_possible = adjusted[static_cast<size_t>(sampled.token)] > kLowest;
  if (params_.num_logprobs >= 0) AddLogprobs(logits, sampled);
  return sampled;
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

// The `count` most likely, sorted. Candidates gather in a buffer of twice that; each time it is
// full its lower half goes and the bar rises to the least of the upper: O(n), and hardly anything
// passes the bar after the first few thousand.
void Sampler::SelectTop(std::span<const float> logits, size_t count) {
  candidates_.clear();
  if (count == 0) return;
  count = std::min(count, logits.size());
  const size_t room = count * 2 + 64;
  float bar = kLowest;
  const auto halve = [&] {
    const auto nth = candidates_.begin() + static_cast<ptrdiff_t>(count - 1);
    std::nth_element(candidates_.begin(), nth, candidates_.end(), LikelierFirst());
    bar = nth->logit;
    candidates_.resize(count);
  };
  for (size_t i = 0; i < logits.size(); ++i) {
    // Ids ascend, so an equal logit comes after those already held and does not displace them.
    if (!(logits[i] > bar)) continue;
    candidates_.push_back({.token = static_cast<TokenId>(i), .logit = Clean(logits[i])});
    if (candidates_.size() == room) halve();
  }
  if (candidates_.size() > count) halve();
  std::sort(candidates_.begin(), candidates_.end(), LikelierFirst());
}

float Sampler::WeighCandidates(double temperature) {
  float greatest = kLowest;
  for (const Candidate& candidate : candidates_) greatest = std::max(greatest, candidate.logit);
  weights_.resize(candidates_.size());
  for (size_t i = 0; i < candidates_.size(); ++i) {
    weights_[i] = (double{candidates_[i].logit} - greatest) / temperature;
  }
  ExpOfNegatives(weights_);
  return greatest;
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

// Sorts only as far as the probabilities need to reach top_p, in runs of growing length.
void Sampler::KeepTopP() {
  WeighCandidates(1.0);
  const double total = Sum(weights_);
  const double wanted = total * double{std::max(params_.top_p, 0.0f)};
  // All tokens lighter than this weigh less than what may be left out, even together, so none of
  // them is needed; mostly that is nearly all of 150K. The factor leaves room for rounding.
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

// Surprise less entropy is a logit's distance to the mean logit: the logarithm of the total falls
// out. A histogram of the distances finds where the probabilities reach typical_p, so that one of
// its buckets, not 150K tokens, is sorted.
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
  if (last == kNumBuckets) return bar;  // rounding kept the sum below: all are needed
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

TokenId Sampler::Draw(std::span<const float> logits) {
  // One number a token, and with XTC one more, whatever the filters leave: the state depends on the
  // count of tokens and the parameters alone.
  const double uniform = NextUniform();
  const bool xtc_on = params_.xtc_probability > 0.0f && params_.xtc_threshold <= 0.5f;
  const bool xtc_now = xtc_on && NextUniform() < double{params_.xtc_probability};
  GatherCandidates(logits);
  if (candidates_.empty()) return 0;
  if (params_.typical_p < 1.0f) KeepTypical();
  if (params_.top_p < 1.0f) KeepTopP();
  if (params_.min_p > 0.0f) {
    WeighCandidates(1.0);
    DropLighterThan(std::min(double{params_.min_p}, 1.0));
  }
  if (xtc_now) ExcludeTopChoices();
  WeighCandidates(double{params_.temperature});
  const double target = uniform * Sum(weights_);
  double sum = 0;
  size_t chosen = 0;
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] == 0) continue;
    chosen = i;  // the last of weight > 0, should rounding keep the sum below the target
    sum += weights_[i];
    if (sum > target) break;
  }
  return candidates_[chosen].token;
}

void Sampler::AddLogprobs(std::span<const float> logits, SampledToken& sampled) {
  const float greatest = FindGreatest(logits).logit;
  weights_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) weights_[i] = double{Clean(logits[i])} - greatest;
  ExpOfNegatives(weights_);
  const double log_total = std::log(Sum(weights_));
  const auto logprob = [&](float logit) {
    const float clean = Clean(logit);
    if (clean == kLowest) return kLowest;
    return static_cast<float>((double{clean} - greatest) - log_total);
  };
  sampled.logprob = logprob(logits[static_cast<size_t>(sampled.token)]);
  SelectTop(logits, static_cast<size_t>(params_.num_logprobs));
  for (const Candidate& candidate : candidates_) {
    sampled.top.push_back({.token = candidate.token, .logprob = logprob(candidate.logit)});
  }
}

}  // namespace kvgate::sample
