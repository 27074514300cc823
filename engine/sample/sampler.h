// Sampler: one token from one row of logits. Pure: the same logits, parameters, tokens told and
// random state give the same token on every machine: all arithmetic is IEEE, in a fixed order, in
// double behind the adjustments, with an exponential of our own (the C library's differs between
// versions in the last bit).
// Knows no sequences. Not thread-safe.
//
// The steps, in the order of llama.cpp's default chain (it has DRY behind the penalties):
//   bias -> penalties -> mask -> top_n_sigma -> top_k -> typical_p -> top_p -> min_p -> xtc
//   -> temperature -> draw.
// So every filter looks at probabilities at temperature 1, of what the one before has left, and
// temperature only reshapes the rest. Greedy (temperature 0) takes the greatest logit after bias
// and penalties; the filters do not apply. The draw walks the candidates from the most likely one
// on (the lower id among equals), behind the first kHeadTokensMax by ids unless top_k or top_p
// sorted them all.
//
// Heads. Where a row comes with its head, the token is drawn from that where it must be the one
// that the whole row would give: each decision is a comparison of a sum of the most likely tokens'
// weights, which are there, with a share of all weights, which the row's sums bound from both
// sides; where the bounds disagree, and for what a head cannot answer (penalties and biases,
// top_n_sigma, a draw behind the head), the whole row is fetched. A mask is looked up in the head.
//
// Log-probabilities are those of the raw logits: what the model said, whatever was done to it. So a
// banned or masked token may be the most likely one of the list, and the chosen one need not be in
// it. Their total is the head's sum where the row has one, also when it is fetched.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <kvgate/ids.h>

#include "engine/sample/logit_adjuster.h"
#include "engine/sample/logit_row.h"

namespace kvgate::sample {

struct SamplingParams {
  float temperature = 1.0f;  // 0 or less: greedy (the lowest id among equal logits)
  int top_k = 0;             // the k most likely; 0: off
  float top_p = 1.0f;        // the fewest whose probabilities reach p, one at least; 1: off
  float min_p = 0.0f;        // at least min_p times as likely as the most likely; 0: off
  // The fewest, one at least, whose probabilities reach p, those first whose surprise (-log
  // probability) is nearest to the entropy; 1: off. Meister et al., "Locally Typical Sampling".
  float typical_p = 1.0f;
  // Logits within n standard deviations of the greatest; 0: off. Tang et al., "Top-n-sigma".
  float top_n_sigma = 0.0f;
  // XTC, "exclude top choices": with this probability, of the tokens at least as probable as the
  // threshold only the least likely one stays. Off: probability 0, or a threshold above 0.5, which
  // two tokens cannot reach.
  float xtc_probability = 0.0f;
  float xtc_threshold = 0.1f;
  LogitAdjustments adjustments = {};
  uint64_t seed = 0;      // of this request; the engine picks one where the caller gave none
  int num_logprobs = -1;  // -1: none; k: the chosen token's and the k most likely ones'
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;  // natural log of the softmax of the raw logits; -inf for probability 0
};

struct SampledToken {
  TokenId token = 0;
  float logprob = 0;              // valid when num_logprobs >= 0
  bool is_possible = true;        // false: nothing was left to choose from; the token means nothing
  std::vector<TokenLogprob> top;  // num_logprobs entries at most, most likely first
};

class Sampler {
 public:
  explicit Sampler(const SamplingParams& params);

  // What the penalties look at: the prompt once, before the first Accept, and each token that the
  // text goes on with.
  void AcceptPrompt(std::span<const TokenId> tokens) { adjuster_.AcceptPrompt(tokens); }
  void Accept(TokenId token) { adjuster_.Accept(token); }

  // Of the tokens whose bit in `mask` is set (word i has tokens 64 i to 64 i + 63); without a mask,
  // of all.
  // REQUIRES: logits not empty, the mask empty or with a bit for each of them; NaN counts as
  // -infinity. Where every logit does, token 0.
  SampledToken Sample(LogitRow& row, std::span<const uint64_t> mask = {});
  SampledToken Sample(std::span<const float> logits, std::span<const uint64_t> mask = {});

  // What a head's tempered sum is made with; above 0 and finite, 1 where nothing is drawn.
  float inverse_temperature() const;

 private:
  struct Candidate {
    TokenId token = 0;
    float logit = 0;
  };
  // A token's random numbers.
  struct Chance {
    double uniform = 0;
    bool xtc_now = false;
  };
  // Where the total of all weights lies, in units of the most likely candidate's.
  struct Bounds {
    double low = 0;
    double high = 0;
  };

  struct Typicality {
    double distance = 0;  // of the surprise to the entropy
    TokenId token = 0;
    auto operator<=>(const Typicality&) const = default;
  };

  // The logits to choose from: the row itself where nothing is to be changed, else a copy.
  std::span<const float> Adjust(std::span<const float> logits, std::span<const uint64_t> mask);
  Chance TakeChance();
  Candidate ChooseFromWhole(std::span<const float> logits, std::span<const uint64_t> mask,
                            const Chance& chance);
  bool is_greedy() const { return !(params_.temperature > 0); }  // also where it is no number
  // Chosen from the row's head, or nothing where that is not sure to be the row's choice. What no
  // token is possible for has the logit -infinity.
  std::optional<Candidate> ChooseFromHead(const LogitHead& head, size_t num_logits,
                                          std::span<const uint64_t> mask, const Chance& chance);
  // Filters what a head begins to list, and draws; likewise.
  std::optional<Candidate> DrawFromOpenHead(const LogitHead& head, bool is_masked,
                                            const Chance& chance);
  Bounds BoundTotal(const LogitHead& head, bool is_masked, double temperature) const;
  bool KeepTopPOfHead(const Bounds& total);
  std::optional<Candidate> DrawWithin(const Bounds& total, double uniform);
  // From candidates_, which are all there are.
  Candidate Draw(const Chance& chance);
  Candidate DrawBehindTopP(const Chance& chance);
  size_t Walk(double target, double sum, size_t passed) const;
  // All that may be drawn, sorted with top_k.
  void GatherCandidates(std::span<const float> logits);
  // The most likely ones to candidates_, sorted.
  void SelectTop(std::span<const float> logits, size_t count);
  static void SelectTop(size_t count, size_t num_candidates, auto at, std::vector<Candidate>& top);
  void KeepTypical();
  // The last, by distances_, of the most typical candidates that together weigh `wanted`.
  Typicality FindTypicalBar(double wanted);
  void KeepTopP();
  void ExcludeTopChoices();
  // weights_ of all candidates, the most likely one's 1; its logit.
  float WeighCandidates(double temperature);
  void WeighCandidates(double temperature, float greatest);
  void DropLighterThan(double weight);
  void AddLogprobs(LogitRow& row, float chosen, SampledToken& sampled);
  uint64_t NextRandom();
  double NextUniform();  // in [0, 1)

  SamplingParams params_;
  LogitAdjuster adjuster_;
  std::array<uint64_t, 4> random_;     // xoshiro256**
  std::vector<Candidate> candidates_;  // scratch, kept between calls
  std::vector<Candidate> head_;        // scratch
  std::vector<double> weights_;        // scratch
  std::vector<double> distances_;      // scratch
  std::vector<float> adjusted_;        // scratch
};

}  // namespace kvgate::sample
