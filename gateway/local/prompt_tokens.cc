#include "gateway/local/prompt_tokens.h"

#include <algorithm>

#include "gateway/dialect/form/errors.h"

namespace kvgate::local {

using dialect::form::Dialect;
using dialect::form::Message;

Result<void> CheckPromptTokens(size_t num_tokens, int64_t tokens_max, Dialect dialect) {
  if (tokens_max == 0 || num_tokens <= static_cast<size_t>(tokens_max)) return {};
  return dialect::form::PromptLimitError(
      dialect, {.num_tokens = static_cast<int64_t>(num_tokens), .tokens_max = tokens_max});
}

int64_t MessageTokens(const tokenizer::Tokenizer& tokenizer, const Message& message) {
  constexpr size_t kFrameTokens = 8;  // around it: its role and marks
  size_t num_tokens = kFrameTokens + tokenizer.Encode(message.content, {}).size() +
                      tokenizer.Encode(message.reasoning, {}).size();
  for (const dialect::form::ToolCall& call : message.tool_calls) {
    num_tokens += kFrameTokens + tokenizer.Encode(call.name + call.arguments, {}).size();
  }
  return static_cast<int64_t>(num_tokens);
}

int64_t WantedTokens(const dialect::form::CompletionRequest& request,
                     const dialect::form::OutputLimit& limit, int64_t usual) {
  const int64_t wanted = request.max_tokens.value_or(limit.fallback > 0 ? limit.fallback : usual);
  return limit.most > 0 ? std::min(wanted, limit.most) : wanted;
}

int64_t RoomForPrompt(const RoomArgs& args) {
  int64_t room = args.prompt_tokens_max;
  if (args.caller_tokens_max > 0) room = std::min(room, args.caller_tokens_max);
  return room - std::min(args.wanted, room / 4);
}

}  // namespace kvgate::local
