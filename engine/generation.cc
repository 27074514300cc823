#include "engine/generation.h"

#include <new>
#include <utility>

#include "base/check.h"
#include "base/digest.h"

namespace kvgate::engine {
namespace {

Error NoTokenLeft() {
  return MakeError(ErrorCode::kInvalidArgument, "engine",
                   "No token is left that the grammar allows here: the vocabulary has none, "
                   "logit_bias bans all, or it is nested too deep.");
}

}  // namespace

Generation::Generation(GenerationRequest& request, const tokenizer::Tokenizer& tokenizer,
                       grammar::mask::MatcherPool* matchers)
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

bool Generation::PursueMask(grammar::mask::MatcherPool::Done done) {
  if (matcher_ == nullptr) matcher_ = matchers_->Start(grammar_);
  matcher_->Ask({.token = std::exchange(unasked_, std::nullopt),
                 .tokens_left = max_tokens_ - num_output_tokens_});
  return matchers_->Pursue(matcher_, std::move(done));
}

bool Generation::Settle() {
  const grammar::mask::Matcher::Answer& answer = matcher_->answer();
  settled_ = true;
  if (answer.error) {
    Fail(*answer.error);
    return false;
  }
  if (!answer.accepted) {
    Fail(NoTokenLeft());
    return false;
  }
  if (num_output_tokens_ > 0 && answer.is_complete) {
    End(FinishReason::kStop);
    return false;
  }
  if (num_output_tokens_ >= max_tokens_) {
    // With a grammar that must be complete, the output is complete here and needs no more tokens.
    const bool is_whole = !grammar_->is_open && answer.can_end;
    End(is_whole ? FinishReason::kStop : FinishReason::kLength);
    return false;
  }
  return true;
}

Result<std::span<const uint64_t>> Generation::NextMask() {
  if (grammar_ == nullptr) return std::span<const uint64_t>();
  settled_ = false;
  const grammar::mask::Matcher::Answer& answer = matcher_->answer();
  if (answer.error) return *answer.error;
  return answer.any_token ? std::span<const uint64_t>() : std::span<const uint64_t>(answer.mask);
}

std::optional<TokenId> Generation::Advance(std::span<const float> logits) {
  sample::LogitRow row(logits);
  return Advance(row);
}

std::optional<TokenId> Generation::Advance(sample::LogitRow& logits) {
  if (hash_logits_) logits_hash_ = Xxh3(std::as_bytes(logits.Whole()), logits_hash_).first;
  if (grammar_ != nullptr && !settled_) {
    KVGATE_CHECK(PursueMask({}), "a token is drawn before its mask is there");
    if (!Settle()) return std::nullopt;
  }
  const auto mask = NextMask();
  if (!mask) return Fail(mask.error());
  sample::SampledToken sampled = sampler_.Sample(logits, *mask);
  // With such a grammar an end token ends the output even if ignore_end_of_generation is set.
  const bool ends = tokenizer_.is_end_of_generation(sampled.token) &&
                    (!ignore_end_of_generation_ || (grammar_ != nullptr && !grammar_->is_open));
  if (matcher_ != nullptr && !sampled.is_possible) return Fail(NoTokenLeft());
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
  if (matcher_ != nullptr) {
    unasked_ = sampled.token;  // Settle decides if the output ends here
  } else if (num_output_tokens_ >= max_tokens_) {
    return End(FinishReason::kLength);
  }
  return sampled.token;
}

// Returns the text that is still held back at the end.
std::string Generation::TakeLastText() {
  if (stopped_by_string_) return {};
  // The rest of a character may complete a stop string; otherwise the held-back text is none.
  sample::StopMatcher::Output last = stop_matcher_.Push(detokenizer_.Finish());
  std::string text = std::move(last.text);
  if (last.stopped) {
    stop_string_ = std::move(last.matched);
  } else {
    text += stop_matcher_.Finish();
  }
  return text;
}

void Generation::Finish(FinishReason reason, RequestStats stats, std::optional<Error> error) {
  KVGATE_CHECK(sink_ != nullptr, "a request is finished twice");
  if (matcher_ != nullptr) matchers_->Release(std::move(matcher_));
  stats.num_output_tokens = num_output_tokens_;
  stats.logits_hash = logits_hash_;
  FinishEvent event{.reason = reason,
                    .text = {},
                    .stop_string = {},
                    .error = error ? std::move(error) : std::move(error_),
                    .stats = stats};
  try {
    event.text = TakeLastText();
  } catch (const std::bad_alloc&) {
    event.reason = FinishReason::kError;
    event.error = OutOfMemory();
  }
  event.stop_string = std::move(stop_string_);
  const std::shared_ptr<TokenSink> sink = std::exchange(sink_, nullptr);
  try {
    sink->OnFinish(std::move(event));
  } catch (const std::bad_alloc&) {  // it has the event; a reader that it could not wake polls
  }
}

}  // namespace kvgate::engine
