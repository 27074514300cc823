// LogitAdjuster: what a request changes in the logits before a token is chosen: biases of single
// tokens, and penalties on tokens that the text has used. It keeps count of those: the prompt is
// told once, every output token as it is chosen. Not thread-safe.
//
// In this order (llama.cpp's), each logit by itself:
//   1. bias: logit + bias; a bias of -100 or less makes it -infinity, so that a ban is one whatever
//      the range of the model's logits.
//   2. repetition, for a token among the last repetition_window ones of prompt and output:
//      logit / penalty where it is positive, else logit * penalty.
//   3. presence and frequency, for a token of the output (OpenAI's definition: the prompt does not
//      count): logit - presence - frequency * (its number of times).
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include <kvgate/ids.h>

namespace kvgate::sample {

struct TokenBias {
  TokenId token = 0;
  float bias = 0;  // -100 or less: never; 100: before all that have less
};

struct LogitAdjustments {
  std::vector<TokenBias> biases = {};  // one a token; ids beyond the logits have no effect
  float repetition_penalty = 1.0f;     // above 0; 1: off
  int repetition_window = -1;          // in tokens; negative: all, 0: off
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
};

class LogitAdjuster {
 public:
  explicit LogitAdjuster(LogitAdjustments adjustments);

  // Before the first Accept; ids >= 0. Costs nothing where no penalty looks at the prompt.
  void AcceptPrompt(std::span<const TokenId> tokens);
  void Accept(TokenId token);

  // Whether Apply would change nothing, now.
  bool is_idle() const { return adjustments_.biases.empty() && uses_.empty(); }
  // O(biases + distinct tokens used).
  void Apply(std::span<float> logits) const;

 private:
  struct Use {
    TokenId token = 0;
    uint32_t num_in_window = 0;
    uint32_t num_in_output = 0;
  };
  Use& UseOf(TokenId token);
  void AddToWindow(TokenId token);

  const LogitAdjustments adjustments_;
  const bool repetition_;  // is on
  const bool output_;      // presence or frequency is on
  std::vector<Use> uses_;  // of every token told that some penalty looks at
  std::unordered_map<TokenId, size_t> use_indices_;
  std::deque<TokenId> window_;  // only where it is bounded
};

}  // namespace kvgate::sample
