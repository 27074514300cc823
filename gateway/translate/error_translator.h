// Errors of an upstream in the words of another dialect: its body, or the error inside an event.
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include <kvgate/result.h>

#include "gateway/protocol/form/completion.h"
#include "gateway/translate/raw_json.h"

namespace kvgate::translate {

// What an upstream said, whichever its dialect.
struct UpstreamError {
  int status = 500;       // HTTP's; of an error among events what its type stands for
  std::string type = {};  // "rate_limit_error", "invalid_request_error" …
  std::string message = {};
  std::string code = {};   // OpenAI's, "context_length_exceeded" …; empty: none
  std::string param = {};  // likewise
};

// Of an answer with an error status. Whatever the body holds; of one that cannot be read the text
// is the message.
UpstreamError ReadErrorBody(int status, std::string_view body);
// Of the "error" member of a body or an event; `status` 0: it is told from the type.
UpstreamError ReadError(int status, const RawObject& error);

struct TranslatedError {
  int status = 500;
  std::string body;
};
// As a client of `to` expects it; 529, which only Anthropic's have, is 503 for the others.
TranslatedError TranslateError(const UpstreamError& error, protocol::Dialect to,
                               std::string_view request_id);
// … as the end of a stream of events.
Error ToError(const UpstreamError& error);

}  // namespace kvgate::translate
