// Prompt tokens: how many a message has, and how many a prompt may have. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "gateway/dialect/form/completion.h"

namespace kvgate::local {

// Fails with kInvalidArgument if a prompt has more tokens than its caller may send; 0 means no
// limit.
Result<void> CheckPromptTokens(size_t num_tokens, int64_t tokens_max,
                               dialect::form::Dialect dialect);

// Returns the tokens that a message adds to a prompt, about: the same in any conversation.
int64_t MessageTokens(const tokenizer::Tokenizer& tokenizer, const dialect::form::Message& message);

// Returns the tokens that a request wants of its answer; `usual` of one that sets no limit, where
// its caller's key has none either.
int64_t WantedTokens(const dialect::form::CompletionRequest& request,
                     const dialect::form::OutputLimit& limit, int64_t usual);

struct RoomArgs {
  int64_t prompt_tokens_max = 0;  // of any prompt
  int64_t caller_tokens_max = 0;  // of this caller's; 0: no limit
  int64_t wanted = 0;             // tokens of the answer
};
// Returns how many tokens a prompt may have that leaves room for its answer, which is a quarter of
// what it may have at all, or less if that is wanted.
int64_t RoomForPrompt(const RoomArgs& args);

}  // namespace kvgate::local
