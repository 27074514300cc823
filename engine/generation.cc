#include "engine/generation.h"

#include <utility>

#include <kvgate/check.h>
#include <kvgate/digest.h>

namespace kvgate::engine {

Generation::Generation(GenerationRequest& request, const tokenizer::Tokenizer& tokenizer,
                       grammar::MatcherPool* matchers)
    : tokenizer_(tokenizer),
      sampler_(request.sampling),
      detokenizer_(tokenizer),
      stop_matcher_(std::move(request.stop_strings)),
      sink_(std::move(request.sink)),
      max_tokens_(request.max_tokens),
      ignore_end_of_generation_(request.ignore_end_of_generation),
      shows_control_tokens_(request.shows_control_tokens),
      hash_logits_(request.hash_logits),
      grammar_(std::move(request.grammar)),
      matchers_(matchers) {
  KVGATE_CHECK(grammar_ == nullptr || matchers_ != nullptr, "a grammar needs matchers");
  sampler_.AcceptPrompt(request.prompt);
}

std::nullopt_t Generation::End(FinishReason reason) {
  finish_reason_ = reason;
  return std::nullopt;
}

std::nullopt_t Generation::Fail(Error error) {
  error_ = std::move(error);
  return End(FinishReason::kError);
}

// Of a text that must be something: it is, and nothing needs to come.
bool Generation::IsWhole() const {
  return matcher_ != nullptr && !grammar_->is_open && matcher_->CanEnd();
}

Result<std::span<const uint64_t>> Generation::NextMask(size_t num_logits) {
  if (grammar_ == nullptr) return std::span<const uint64_t>();
  if (matcher_ == nullptr) {
    matcher_ = matchers_->Start(grammar_);
    mask_.resize((num_logits + 63) / 64);
  }
  KVGATE_TRY(const bool any, matcher_->FillMask(mask_, max_tokens_ - num_output_tokens_));
  return any ? std::span<const uint64_t>() : std::span<const uint64_t>(mask_);
}

std::optional<TokenId> Generation::Advance(std::span<const float> logits) {
  sample::LogitRow row(logits);
  return Advance(row);
}

std::optional<TokenId> Generation::Advance(sample::LogitRow& logits) {
  if (hash_logits_) logits_hash_ = Xxh3(std::as_bytes(logits.Whole()), logits_hash_).first;
  const auto mask = NextMask(logits.size());
  if (!mask) return Fail(mask.error());
  sample::SampledToken sampled = sampler_.Sample(logits, *mask);
  // A text that must be whole has an end of its own.
  const bool ends = tokenizer_.is_end_of_generation(sampled.token) &&
                    (!ignore_end_of_generation_ || (grammar_ != nullptr && !grammar_->is_open));
  if (matcher_ != nullptr && (!sampled.is_possible || !matcher_->AcceptToken(sampled.token))) {
    return Fail(MakeError(ErrorCode::kInvalidArgument, "engine",
                          "No token is left that the grammar allows here: the vocabulary has none, "
                          "logit_bias bans all, or it is nested too deep."));
  }
  sampler_.Accept(sampled.token);
  ++num_output_tokens_;
  const bool is_end = tokenizer_.is_end_of_generation(sampled.token);
  if (ends) return End(FinishReason::kStop);
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
    return End(FinishReason::kStop);
  }
  if (matcher_ != nullptr && matcher_->IsComplete()) return End(FinishReason::kStop);
  if (num_output_tokens_ >= max_tokens_) {
    return End(IsWhole() ? FinishReason::kStop : FinishReason::kLength);
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
                  .error = error ? std::move(error) : std::move(error_),
                  .stats = stats});
}

}  // namespace kvgate::engine
