// Translates a request body of one dialect into another.
//
// The translation is pure: equal bytes give equal bytes. If a conversation grows, the translation
// of its earlier turns stays the same, because the upstream's prompt cache depends on it. A field
// that the target cannot express is an error that names it; hints are mapped or left out, as the
// README's table says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/dialect/form/completion.h"
#include "gateway/dialect/reply/reply_encoder.h"
#include "gateway/dialect/translate/request_form.h"

namespace kvgate::dialect {

struct TranslateRequestArgs {
  form::Dialect from = form::Dialect::kChatCompletions;
  form::Dialect to = form::Dialect::kMessages;
  std::string_view body;  // at most the server's limit on bodies
  // What the path of a Gemini request says beside its body.
  std::string_view model = {};
  bool stream = false;
  translate::TargetTraits target = {};
  form::OutputLimit output = {};
};

struct TranslatedRequest {
  std::string body = {};
  std::string path = {};  // with its query, such as "/v1/messages"
  bool stream = false;    // as requested by the caller
  bool include_usage = false;
  bool thoughts = true;                // the caller wants to see the model's reasoning
  reply::ResponseShape shape = {};     // for a caller of Responses
  std::vector<form::Tool> tools = {};  // tools whose calls the reply must rename for the client
  // The types of what the body leaves out, as in gateway/dialect/form/left_out.h. If there are
  // any, `opening` tells a caller's conversations apart.
  std::vector<std::string> left_out = {};
  std::string opening = {};
};

// `from` and `to` are different, and each has turns: Completions is neither. Returns
// kInvalidArgument or kUnsupported with the field at fault, or kThreadSource as in
// gateway/dialect.
Result<TranslatedRequest> TranslateRequest(const TranslateRequestArgs& args);

// Returns "/v1/chat/completions", "/v1/responses" or "/v1/messages". REQUIRES: one of these three
// dialects.
std::string_view PathOfDialect(form::Dialect dialect);

// Estimates the prompt tokens of a body of Messages or Gemini, for an upstream that cannot count.
// The estimate errs on the high side, because clients ask in order to stay below a limit.
Result<int64_t> EstimateTokens(std::string_view body);

}  // namespace kvgate::dialect
