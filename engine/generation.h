// Generation: the output side of one request: from logits to tokens to text to its sink.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "engine/engine.h"
#include "engine/text/grammar/mask/matcher.h"
#include "engine/sample/sampler.h"
#include "engine/sample/stop_matcher.h"
#include "engine/schedule/sequence.h"
#include "engine/text/tokenizer/tokenizer.h"

namespace kvgate::engine {

class Generation : public schedule::SequenceOwnerData {
 public:
  // Takes the output-related parts of the request and looks at its prompt, which must still be
  // there; the tokenizer outlives this, and so do the matchers, which a grammar needs and which are
  // not touched before the first Advance.
  Generation(GenerationRequest& request, const tokenizer::Tokenizer& tokenizer,
             grammar::MatcherPool* matchers = nullptr);

  // Samples from one row of logits and sends what may be shown. The token sampled, to be computed
  // next, or nothing when the request is over: then Finish is due with finish_reason(). With a
  // grammar, Settle may say so, too, and must have been called before; it is here where the
  // matchers have no worker.
  std::optional<TokenId> Advance(sample::LogitRow& logits);
  std::optional<TokenId> Advance(std::span<const float> logits);
  // With a grammar: sees to what the next Advance needs of it. True: it is there. Else `done` is
  // called as MatcherPool::Pursue says, and Settle is due behind it.
  // REQUIRES: a grammar; it was not called since the last Advance.
  bool PursueMask(grammar::MatcherPool::Done done);
  bool has_grammar() const { return grammar_ != nullptr; }
  // Takes the answer. False: the request is over, as after Advance.
  bool Settle();

  // As Sampler's.
  float inverse_temperature() const { return sampler_.inverse_temperature(); }

  // Sends the last event. Exactly once. With kError of its own (finish_reason()), `error` is not
  // needed. Never throws: where there is no memory for the end of the text, the end is that error.
  void Finish(FinishReason reason, RequestStats stats, std::optional<Error> error = std::nullopt);

  FinishReason finish_reason() const { return finish_reason_; }
  int num_output_tokens() const { return num_output_tokens_; }
  // Of the prompt; told with every token.
  void SetCachedTokens(int num_cached_tokens) { num_cached_tokens_ = num_cached_tokens; }
  bool wants_output() const { return max_tokens_ > 0; }

 private:
  // Which tokens may come next; empty: any.
  Result<std::span<const uint64_t>> NextMask();
  std::string TakeLastText();
  std::nullopt_t End(FinishReason reason);
  std::nullopt_t Fail(Error error);

  const tokenizer::Tokenizer& tokenizer_;
  sample::Sampler sampler_;
  tokenizer::Detokenizer detokenizer_;
  sample::StopMatcher stop_matcher_;
  std::shared_ptr<TokenSink> sink_;
  int max_tokens_;
  bool ignore_end_of_generation_;
  bool shows_control_tokens_;
  bool hash_logits_;
  uint64_t logits_hash_ = 0;
  int num_output_tokens_ = 0;
  int num_cached_tokens_ = 0;
  bool stopped_by_string_ = false;
  std::string stop_string_;
  FinishReason finish_reason_ = FinishReason::kStop;
  std::optional<Error> error_;  // with kError
  std::shared_ptr<const grammar::CompiledGrammar> grammar_;
  grammar::MatcherPool* const matchers_;
  std::shared_ptr<grammar::Matcher> matcher_;  // from the first question on
  std::optional<TokenId> unasked_;             // a token that the matcher has not heard of
  bool settled_ = false;                       // the next Advance has its mask
};

// Of a sequence of the engine's.
inline Generation& GenerationOf(schedule::Sequence& sequence) {
  return static_cast<Generation&>(*sequence.owner);
}

}  // namespace kvgate::engine
