// Sampler: one token from one row of logits. Pure: the same logits, parameters and random state
// give the same token on every machine: all arithmetic is IEEE double in a fixed order, with an
// exponential of our own (the C library's differs between versions in the last bit).
// Knows no sequences. Not thread-safe.
//
// The filters apply in the order users of llama.cpp expect:
//   top_k -> top_p -> min_p -> temperature -> draw.
// So top_p and min_p look at probabilities at temperature 1, and temperature only reshapes what
// they have left. Candidates stand in the order of their logits (of ids among equals) as soon as a
// filter has sorted them, else in the order of ids; the draw walks them in that order.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <kvgate/ids.h>

namespace kvgate::sample {

struct SamplingParams {
  float temperature = 1.0f;  // 0 or less: greedy (the lowest id among equal logits)
  int top_k = 0;             // the k most likely; 0: off
  float top_p = 1.0f;        // the fewest whose probabilities reach p, one at least; 1: off
  float min_p = 0.0f;        // at least min_p times as likely as the most likely; 0: off
  uint64_t seed = 0;         // of this request; the engine picks one where the caller gave none
  int num_logprobs = -1;     // -1: none; k: the chosen token's and the k most likely ones'
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;  // natural log of the softmax of the raw logits; -inf for probability 0
};

struct SampledToken {
  TokenId token = 0;
  float logprob = 0;              // valid when num_logprobs >= 0
  std::vector<TokenLogprob> top;  // num_logprobs entries at most, most likely first
};

class Sampler {
 public:
  explicit Sampler(const SamplingParams& params);
  // REQUIRES: logits not empty; NaN counts as -infinity. Where every logit does, token 0.
  SampledToken Sample(std::span<const float> logits);

 private:
  struct Candidate {
    TokenId token = 0;
    float logit = 0;
  };

  TokenId Draw(std::span<const float> logits);
  void SelectTop(std::span<const float> logits, size_t count);
  void KeepTopP();
  // weights_ of all candidates, the most likely one's 1.
  void WeighCandidates(double temperature);
  void DropLighterThan(double weight);
  void AddLogprobs(std::span<const float> logits, SampledToken& sampled);
  uint64_t NextRandom();

  SamplingParams params_;
  std::array<uint64_t, 4> random_;     // xoshiro256**
  std::vector<Candidate> candidates_;  // scratch, kept between calls
  std::vector<double> weights_;        // scratch
};

}  // namespace kvgate::sample
