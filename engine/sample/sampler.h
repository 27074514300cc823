// Sampler: chooses one token from one row of logits. The same logits, parameters, accepted tokens
// and random state give the same token on every machine: all arithmetic is IEEE in a fixed order,
// in double after the adjustments, with its own exponential function (the C library's differs
// between versions in the last bit). It knows no sequences. Not thread-safe.
//
// The steps follow llama.cpp's default chain (which also has DRY after the penalties):
//   bias -> penalties -> mask -> top_n_sigma -> top_k -> typical_p -> top_p -> min_p -> xtc
//   -> temperature -> draw.
// So each filter uses the probabilities at temperature 1 of the tokens that the previous filters
// kept, and the temperature only reshapes the result. Greedy (temperature 0) takes the greatest
// logit after bias, penalties and mask; the filters do not apply. The draw walks the candidates
// from the most likely one (the lower id first among equals); after the first kHeadTokensMax it
// goes by id, unless top_k or top_p sorted them all.
//
// Heads. If a row comes with its head, the token is drawn from the head whenever the whole row
// would certainly give the same token. Each decision compares the summed weights of the most likely
// tokens, which are known, with a share of all weights, for which the row's sums give a lower and
// an upper bound. If the bounds disagree, or a head is not enough (penalties and biases,
// top_n_sigma, a draw beyond the head), the whole row is fetched. A mask is applied to the head's
// tokens.
//
// Log-probabilities are those of the raw logits, before any adjustment. So a banned or masked token
// may be the most likely one of the list, and the chosen token may be missing from it. Their total
// is the head's sum if the row has a head, even if the whole row is fetched.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "engine/sample/logit_adjuster.h"
#include "engine/sample/logit_row.h"

namespace kvgate::sample {

struct SamplingParams {
  float temperature = 1.0f;  // 0 or less means greedy (the lowest id among equal logits)
  int top_k = 0;             // keeps the k most likely; 0 is off
  float top_p = 1.0f;        // keeps the fewest whose probabilities reach p, at least one; 1 is off
  float min_p = 0.0f;  // keeps those at least min_p times as likely as the most likely; 0 is off
  // Keeps the fewest tokens, at least one, whose probabilities reach p, starting with those whose
  // surprise (-log probability) is nearest to the entropy; 1 is off. Meister et al., "Locally
  // Typical Sampling".
  float typical_p = 1.0f;
  // Keeps logits within n standard deviations of the greatest; 0 is off. Tang et al.,
  // "Top-n-sigma".
  float top_n_sigma = 0.0f;
  // XTC, "exclude top choices": with this probability, all tokens at least as probable as the
  // threshold are dropped except the least likely of them. It is off with probability 0, or with a
  // threshold above 0.5, which two tokens cannot reach.
  float xtc_probability = 0.0f;
  float xtc_threshold = 0.1f;
  LogitAdjustments adjustments = {};
  uint64_t seed = 0;      // of this request; the caller picks one if the client gave none
  int num_logprobs = -1;  // -1 means none; k means the chosen token's and the k most likely ones'
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;  // natural log of the softmax of the raw logits; -inf for probability 0
};

struct SampledToken {
  TokenId token = 0;
  float logprob = 0;  // valid when num_logprobs >= 0
  // False if no token was left to choose from; `token` is meaningless then.
  bool is_possible = true;
  std::vector<TokenLogprob> top;  // at most num_logprobs entries, most likely first
};

class Sampler {
 public:
  explicit Sampler(const SamplingParams& params);

  // Gives the penalties their tokens: the prompt once, before the first Accept, and then each token
  // of the output.
  void AcceptPrompt(std::span<const TokenId> tokens) { adjuster_.AcceptPrompt(tokens); }
  void Accept(TokenId token) { adjuster_.Accept(token); }

  // Chooses among the tokens whose bit in `mask` is set (word i has tokens 64 i to 64 i + 63); an
  // empty mask allows all. NaN counts as -infinity; if every logit does, the result is token 0.
  // REQUIRES: logits not empty; the mask empty or with a bit for each of them.
  SampledToken Sample(LogitRow& row, std::span<const uint64_t> mask = {});
  SampledToken Sample(std::span<const float> logits, std::span<const uint64_t> mask = {});

  // The factor of a head's tempered sum; positive and finite, 1 for greedy sampling.
  float inverse_temperature() const;

 private:
  struct Candidate {
    TokenId token = 0;
    float logit = 0;
  };
  // The random numbers for one token.
  struct Chance {
    double uniform = 0;
    bool xtc_now = false;
  };
  // Bounds of the total of all weights, in units of the most likely candidate's weight.
  struct Bounds {
    double low = 0;
    double high = 0;
  };

  struct Typicality {
    double distance = 0;  // between surprise and entropy
    TokenId token = 0;
    auto operator<=>(const Typicality&) const = default;
  };

  // Returns the logits to choose from: the row itself if nothing changes it, else a copy.
  std::span<const float> Adjust(std::span<const float> logits, std::span<const uint64_t> mask);
  Chance TakeChance();
  Candidate ChooseFromWhole(std::span<const float> logits, std::span<const uint64_t> mask,
                            const Chance& chance);
  bool is_greedy() const { return !(params_.temperature > 0); }  // NaN counts as greedy, too
  // Returns the choice from the row's head, or nullopt if it might differ from the whole row's
  // choice. The result has the logit -infinity if no token is possible.
  std::optional<Candidate> ChooseFromHead(const LogitHead& head, size_t num_logits,
                                          std::span<const uint64_t> mask, const Chance& chance);
  // Filters candidates that are only the beginning of the row, and draws; nullopt as above.
  std::optional<Candidate> DrawFromOpenHead(const LogitHead& head, bool is_masked,
                                            const Chance& chance);
  Bounds BoundTotal(const LogitHead& head, bool is_masked, double temperature) const;
  bool KeepTopPOfHead(const Bounds& total);
  std::optional<Candidate> DrawWithin(const Bounds& total, double uniform);
  // Draws from candidates_, which must be complete.
  Candidate Draw(const Chance& chance);
  Candidate DrawBehindTopP(const Chance& chance);
  size_t Walk(double target, double sum, size_t passed) const;
  // Collects all tokens that may be drawn; sorted if top_k is on.
  void GatherCandidates(std::span<const float> logits);
  // Collects the `count` most likely tokens in candidates_, sorted.
  void SelectTop(std::span<const float> logits, size_t count);
  static void SelectTop(size_t count, size_t num_candidates, auto at, std::vector<Candidate>& top);
  void KeepTypical();
  // Returns the last (by distances_) of the most typical candidates that together weigh `wanted`.
  Typicality FindTypicalBar(double wanted);
  void KeepTopP();
  void ExcludeTopChoices();
  // Computes weights_ of all candidates, 1 for the most likely one, and returns that one's logit.
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
