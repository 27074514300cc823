#include "engine/model/synthetic_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/engine/model/made_model.h"

namespace kvgate::model {
namespace {

using SyntheticWeightsTest = MadeModelTest;
INSTANTIATE_TEST_SUITE_P(All, SyntheticWeightsTest, SyntheticCases());

TEST_P(SyntheticWeightsTest, SampledTextIsPrintableWhateverThePrompt) {
  // The prompts end with characters that must not be sampled, among them raw bytes.
  for (const std::string prompt : {"Once upon a time", "\xF0\x9F\x98\x80 na\xC3\xAFve \xFF",
                                   "<|im_start|>user\nhi<|im_end|><|im_start|>", "\t\x01\xC3"}) {
    const std::vector<TokenId> tokens = Generate(prompt, 500, 1.0f);
    const std::string text = tokenizer_->Decode(tokens, true);
    for (const char c : text) {
      ASSERT_TRUE((c >= 0x20 && c <= 0x7E) || c == '\n')
          << "byte " << static_cast<int>(static_cast<unsigned char>(c));
    }
    for (const TokenId token : tokens) {
      ASSERT_FALSE(tokenizer_->is_end_of_generation(token));
      ASSERT_FALSE(tokenizer_->TokenBytes(token).empty()) << token;
    }
  }
}

TEST_P(SyntheticWeightsTest, LogitsAreNeitherFlatNorCertain) {
  std::vector<TokenId> tokens = tokenizer_->Encode("The old house by the water", {});
  SequenceRunner runner(*loaded_.model, *backend_, {.context = 512});
  sample::Sampler sampler({.temperature = 1.0f, .seed = 3});
  double entropy_sum = 0;
  constexpr int kSteps = 200;
  for (int i = 0; i < kSteps; ++i) {
    const std::vector<float> logits = runner.Last(tokens);
    const double largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    double weighted = 0;
    for (const float logit : logits) {
      const double weight = std::exp(logit - largest);
      sum += weight;
      weighted += weight * (logit - largest);
    }
    entropy_sum += std::log(sum) - weighted / sum;
    tokens = {sampler.Sample(logits).token};
  }
  const double entropy = entropy_sum / kSteps;
  RecordProperty("entropy", std::to_string(entropy));
  EXPECT_GT(entropy, 1.0);
  EXPECT_LT(entropy, 0.9 * std::log(700.0));
}

TEST_P(SyntheticWeightsTest, GreedyTextDoesNotStickToOneToken) {
  const std::vector<TokenId> tokens = Generate("Once upon a time", 200, 0.0f);
  const std::set<TokenId> distinct(tokens.begin(), tokens.end());
  EXPECT_GT(distinct.size(), 8u);
  EXPECT_GT(std::set<TokenId>(tokens.end() - 50, tokens.end()).size(), 2u);
}

}  // namespace
}  // namespace kvgate::model
