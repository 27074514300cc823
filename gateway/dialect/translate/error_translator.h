// Translates errors of an upstream, as a body or inside an event, into another dialect. The
// functions are pure.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/dialect/form/completion.h"
#include "gateway/dialect/translate/raw_json.h"

namespace kvgate::dialect::translate {

// An upstream's error, independent of its dialect.
struct UpstreamError {
  int status = 500;       // HTTP status; for an error event the one that its type implies
  std::string type = {};  // "rate_limit_error", "invalid_request_error" …
  std::string message = {};
  std::string code = {};   // OpenAI's: "context_length_exceeded" …; empty: none
  std::string param = {};  // OpenAI's; empty: none
};

// Reads the body of an answer with an error status. If the body cannot be parsed, its text is the
// message.
UpstreamError ReadErrorBody(int status, std::string_view body);
// Reads the "error" member of a body or an event. With `status` 0 the status is derived from the
// type.
UpstreamError ReadError(int status, const RawObject& error);

struct TranslatedError {
  int status = 500;
  std::string body;
};
// Encodes the error as a client of `to` expects it. Status 529, which only Anthropic uses, becomes
// 503 for other dialects.
TranslatedError TranslateError(const UpstreamError& error, form::Dialect to,
                               std::string_view request_id);
// Converts it to the error that ends an event stream.
Error ToError(const UpstreamError& error);

}  // namespace kvgate::dialect::translate
