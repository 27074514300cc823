// The one table from our errors to what a client sees.
#pragma once

#include <string>
#include <string_view>

#include <kvgate/result.h>

#include "gateway/protocol/form/completion.h"

namespace kvgate::protocol {

int HttpStatus(ErrorCode code);
// … of which few errors have one of their own: kLockedSource is 409.
int HttpStatus(const Error& error);

// {"error":{"message","type","param","code"}}. Internal detail (kInternal, kDataLoss, kIo) is not
// sent: the caller logs it under the request id.
std::string EncodeError(const Error& error);
// What of an error may be told: its detail, or for internal ones where to find it.
std::string PublicMessage(const Error& error);

// A prompt that is longer than what it may be, in the words that a dialect's clients look for:
// Claude Code compacts on "prompt is too long: N tokens > M maximum" and on nothing else.
struct ContextOverflow {
  int64_t num_tokens = 0;
  int64_t tokens_max = 0;  // of the context, or of a prompt
};
std::string ContextLengthMessage(Dialect dialect, const ContextOverflow& overflow);
// The same of a key's own bound on prompts.
Error PromptLimitError(Dialect dialect, const ContextOverflow& overflow);
// kInvalidArgument; its code is context_length_exceeded.
Error ContextLengthError(Dialect dialect, const ContextOverflow& overflow, std::string field);

// {"type":"error","error":{"type","message"},"request_id"}: the Messages dialect.
struct MessagesError {
  int status = 500;
  std::string_view message;
  std::string_view request_id;
  std::string_view details = {};  // JSON, for "details"; empty: none
};
std::string EncodeMessagesError(const MessagesError& error);
// What its clients have to know of an error beside the text, as JSON; mostly nothing.
std::string MessagesErrorDetails(const Error& error);

}  // namespace kvgate::protocol
