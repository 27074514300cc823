// LogitAdjuster: a request's changes to the logits before a token is chosen: biases of single
// tokens, and penalties on tokens that the text has used. It counts those: the prompt is given
// once, each output token when it is chosen. Not thread-safe.
//
// The order is llama.cpp's; each step applies to each logit by itself:
//   1. bias: logit + bias; a bias of -100 or less makes it -infinity, so that a token is banned
//      whatever the range of the model's logits.
//   2. repetition, for a token among the last repetition_window ones of prompt and output:
//      logit / penalty if the logit is positive, else logit * penalty.
//   3. presence and frequency, for a token of the output (OpenAI's definition: the prompt does not
//      count): logit - presence - frequency * (number of occurrences).
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"

namespace kvgate::sample {

struct TokenBias {
  TokenId token = 0;
  float bias = 0;  // -100 or less bans the token; 100 usually forces it
};

struct LogitAdjustments {
  std::vector<TokenBias> biases = {};  // one per token; ids beyond the logits are ignored
  float repetition_penalty = 1.0f;     // positive; 1 is off
  int repetition_window = -1;          // in tokens; negative means all, 0 is off
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
};

class LogitAdjuster {
 public:
  explicit LogitAdjuster(LogitAdjustments adjustments);

  // To be called before the first Accept; ids >= 0. Costs nothing if no penalty uses the prompt.
  void AcceptPrompt(std::span<const TokenId> tokens);
  void Accept(TokenId token);

  // True if Apply would change no logit at this time.
  bool is_idle() const { return adjustments_.biases.empty() && uses_.empty(); }
  // Costs O(biases + distinct tokens used).
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
  const bool repetition_;  // enabled
  const bool output_;      // presence or frequency enabled
  std::vector<Use> uses_;  // the tokens that a penalty may apply to
  std::unordered_map<TokenId, size_t> use_indices_;
  std::deque<TokenId> window_;  // used only if the window is bounded
};

}  // namespace kvgate::sample
