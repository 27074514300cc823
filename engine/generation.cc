#include "engine/generation.h"

#include <utility>

#include <kvgate/check.h>
#include <kvgate/digest.h>

namespace kvgate::engine {

Generation::Generation(GenerationRequest& request, const tokenizer::Tokenizer& tokenizer)
    : tokenizer_(tokenizer),
      sampler_(request.sampling),
      detokenizer_(tokenizer),
      stop_matcher_(std::move(request.stop_strings)),
      sink_(std::move(request.sink)),
      max_tokens_(request.max_tokens),
      ignore_end_of_generation_(request.ignore_end_of_generation),
      shows_control_tokens_(request.shows_control_tokens),
      hash_logits_(request.hash_logits) {
  sampler_.AcceptPrompt(request.prompt);
}

std::optional<TokenId> Generation::Advance(std::span<const float> logits) {
  if (hash_logits_) logits_hash_ = Xxh3(std::as_bytes(logits), logits_hash_).first;
  sample::SampledToken sampled = sampler_.Sample(logits);
  sampler_.Accept(sampled.token);
  ++num_output_tokens_;
  const bool is_end = tokenizer_.is_end_of_generation(sampled.token);
  if (is_end && !ignore_end_of_generation_) {
    finish_reason_ = FinishReason::kStop;
    return std::nullopt;
  }
  const std::string piece = detokenizer_.Push(sampled.token, shows_control_tokens_ && !is_end);
  sample::StopMatcher::Output output = stop_matcher_.Push(piece);
  sink_->OnToken({.token = sampled.token,
                  .text = std::move(output.text),
                  .logprob = sampled.logprob,
                  .top_logprobs = std::move(sampled.top),
                  .num_cached_tokens = num_cached_tokens_});
  if (output.stopped) {
    stopped_by_string_ = true;
    stop_string_ = std::move(output.matched);
    finish_reason_ = FinishReason::kStop;
    return std::nullopt;
  }
  if (num_output_tokens_ >= max_tokens_) {
    finish_reason_ = FinishReason::kLength;
    return std::nullopt;
  }
  return sampled.token;
}

void Generation::Finish(FinishReason reason, RequestStats stats, std::optional<Error> error) {
  KVGATE_CHECK(sink_ != nullptr, "a request is finished twice");
  stats.num_output_tokens = num_output_tokens_;
  stats.logits_hash = logits_hash_;
  std::string text;
  if (!stopped_by_string_) {
    // The rest of a character may complete a stop string; what is held back may not be one.
    sample::StopMatcher::Output last = stop_matcher_.Push(detokenizer_.Finish());
    text = std::move(last.text);
    if (last.stopped) {
      stop_string_ = std::move(last.matched);
    } else {
      text += stop_matcher_.Finish();
    }
  }
  std::exchange(sink_, nullptr)
      ->OnFinish({.reason = reason,
                  .text = std::move(text),
                  .stop_string = std::move(stop_string_),
                  .error = std::move(error),
                  .stats = stats});
}

}  // namespace kvgate::engine
