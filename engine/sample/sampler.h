// Sampler: one token from one row of logits. Pure: the same logits, parameters and random state give
// the same token on every machine. Knows no sequences. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <kvgate/ids.h>

namespace kvgate::sample {

struct SamplingParams {
  float temperature = 1.0f;  // 0: greedy (the lowest id among equal logits)
  int top_k = 0;             // 0: off
  float top_p = 1.0f;        // 1: off
  float min_p = 0.0f;        // 0: off
  uint64_t seed = 0;         // of this request; the engine picks one where the caller gave none
  int num_logprobs = -1;     // -1: none; k: the chosen token's and the k most likely ones'
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;  // natural log of the softmax of the raw logits
};

struct SampledToken {
  TokenId token = 0;
  float logprob = 0;                 // valid when num_logprobs >= 0
  std::vector<TokenLogprob> top;     // num_logprobs entries, most likely first
};

class Sampler {
 public:
  explicit Sampler(const SamplingParams& params);
  // REQUIRES: logits not empty; NaN counts as -infinity.
  SampledToken Sample(std::span<const float> logits);

 private:
  SamplingParams params_;
  uint64_t random_[4];                  // xoshiro256**
  std::vector<TokenLogprob> candidates_;  // scratch, kept between calls
};

// Finds stop strings in text that arrives in pieces, holding back what may yet become one.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops);
  struct Output {
    std::string text;      // safe to emit now
    bool stopped = false;  // a stop string was found; nothing may follow
    std::string matched;   // which
  };
  Output Push(std::string_view text);
  // The generation ended: what was held back.
  std::string Finish();

 private:
  std::vector<std::string> stops_;
  std::string held_;
};

}  // namespace kvgate::sample
