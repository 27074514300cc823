// The one table from internal errors to what a client sees.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/dialect/form/completion.h"

namespace kvgate::dialect::form {

int HttpStatus(ErrorCode code);
// Some errors have a status that their code does not imply: kLockedSource and
// kSessionSource are 409.
int HttpStatus(const Error& error);

// Encodes {"error":{"message","type","param","code"}}. Internal detail (kInternal, kDataLoss, kIo)
// is not sent; the caller logs it under the request id.
std::string EncodeError(const Error& error);
// Returns the text of an error that clients may see: its detail or, for internal errors, where to
// look it up.
std::string PublicMessage(const Error& error);

// A prompt that exceeds its limit. The message uses the words that a dialect's clients look for:
// Claude Code compacts only on "prompt is too long: N tokens > M maximum".
struct ContextOverflow {
  int64_t num_tokens = 0;
  int64_t tokens_max = 0;  // the context's limit, or a key's limit on prompts
};
std::string ContextLengthMessage(Dialect dialect, const ContextOverflow& overflow);
// The error for a prompt above its key's limit.
Error PromptLimitError(Dialect dialect, const ContextOverflow& overflow);
// Returns kInvalidArgument, which clients see as the code context_length_exceeded.
Error ContextLengthError(Dialect dialect, const ContextOverflow& overflow, std::string field);

// The error body of the Messages dialect: {"type":"error","error":{"type","message"},"request_id"}.
struct MessagesError {
  int status = 500;
  std::string_view message;
  std::string_view request_id;
  std::string_view details = {};  // JSON for "details"; empty if there is none
};
std::string EncodeMessagesError(const MessagesError& error);
// The error body of the Gemini dialect: {"error":{"code","message","status"}}.
std::string EncodeGeminiError(int status, std::string_view message);
// Returns as JSON what clients of the Messages dialect need beside the text; usually empty.
std::string MessagesErrorDetails(const Error& error);

}  // namespace kvgate::dialect::form
