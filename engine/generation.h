// Generation: the output side of one request. It turns logits into tokens and text for the sink.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "engine/engine.h"
#include "engine/sample/sampler.h"
#include "engine/sample/stop_matcher.h"
#include "engine/schedule/sequence.h"
#include "engine/text/grammar/mask/matcher.h"
#include "engine/text/tokenizer/tokenizer.h"

namespace kvgate::engine {

class Generation : public schedule::SequenceOwnerData {
 public:
  // Takes the output-related fields of the request and reads its prompt, which must still be in it.
  // The tokenizer and the matchers outlive this object. A grammar needs matchers, which are not
  // touched before the first Advance or PursueMask.
  Generation(GenerationRequest& request, const tokenizer::Tokenizer& tokenizer,
             grammar::mask::MatcherPool* matchers = nullptr);

  // Samples from one row of logits and sends the text that may be shown. Returns the sampled token,
  // to be computed next, or nullopt when the request is over and Finish(finish_reason()) is due.
  // With a grammar the mask must be settled first; Advance does it itself if the matchers have no
  // worker.
  std::optional<TokenId> Advance(sample::LogitRow& logits);
  std::optional<TokenId> Advance(std::span<const float> logits);
  // Prepares the grammar mask that the next Advance needs. Returns true if it is ready. Otherwise
  // `done` is called as MatcherPool::Pursue says, and Settle must be called after that. REQUIRES: a
  // grammar; not called since the last Advance.
  bool PursueMask(grammar::mask::MatcherPool::Done done);
  bool has_grammar() const { return grammar_ != nullptr; }
  // Reads the matcher's answer. Returns false if the request is over, as when Advance returns
  // nullopt.
  bool Settle();

  // Same as Sampler's.
  float inverse_temperature() const { return sampler_.inverse_temperature(); }

  // Sends the last event; must be called exactly once. `error` is not needed if the generation
  // itself failed (finish_reason() is kError). Never throws: if there is no memory for the last
  // text, the request ends with that error.
  void Finish(FinishReason reason, RequestStats stats, std::optional<Error> error = std::nullopt);

  FinishReason finish_reason() const { return finish_reason_; }
  int num_output_tokens() const { return num_output_tokens_; }
  // Cached tokens of the prompt, reported with every token.
  void SetCachedTokens(int num_cached_tokens) { num_cached_tokens_ = num_cached_tokens; }
  bool wants_output() const { return max_tokens_ > 0; }

 private:
  // Returns the mask of tokens that may come next; empty means any token.
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
  std::optional<Error> error_;  // set if finish_reason_ is kError
  std::shared_ptr<const grammar::mask::CompiledGrammar> grammar_;
  grammar::mask::MatcherPool* const matchers_;
  std::shared_ptr<grammar::mask::Matcher> matcher_;  // created by the first PursueMask
  std::optional<TokenId> unasked_;  // the sampled token that the matcher was not told yet
  bool settled_ = false;            // the next Advance has its mask
};

// Returns the generation that an engine's sequence owns.
inline Generation& GenerationOf(schedule::Sequence& sequence) {
  return static_cast<Generation&>(*sequence.owner);
}

}  // namespace kvgate::engine
