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
#include "gateway/protocol/form/completion.h"
#include "gateway/protocol/reply_encoder.h"
#include "gateway/translate/request_form.h"

namespace kvgate::translate {

struct TranslateRequestArgs {
  protocol::form::Dialect from = protocol::form::Dialect::kChatCompletions;
  protocol::form::Dialect to = protocol::form::Dialect::kMessages;
  std::string_view body;  // at most the server's limit on bodies
  TargetTraits target = {};
  protocol::form::OutputLimit output = {};
};

struct TranslatedRequest {
  std::string body = {};
  std::string_view path;  // a literal such as "/v1/messages"
  bool stream = false;    // as requested by the caller
  bool include_usage = false;
  protocol::ResponseShape shape = {};  // for a caller of Responses
  std::vector<protocol::form::Tool> tools =
      {};  // tools whose calls the reply must rename for the client
  // The types of what the body leaves out, as in gateway/protocol/form/left_out.h. If there are
  // any, `opening` tells a caller's conversations apart.
  std::vector<std::string> left_out = {};
  std::string opening = {};
};

// `from` and `to` are different, and each is Chat Completions, Responses or Messages. Returns
// kInvalidArgument or kUnsupported with the field at fault, or kThreadSource as in
// gateway/protocol.
Result<TranslatedRequest> TranslateRequest(const TranslateRequestArgs& args);

// Returns "/v1/chat/completions", "/v1/responses" or "/v1/messages". REQUIRES: one of these three
// dialects.
std::string_view PathOfDialect(protocol::form::Dialect dialect);

// Estimates the prompt tokens of a Messages body, for an upstream that cannot count. The estimate
// errs on the high side, because clients ask in order to stay below a limit.
Result<int64_t> EstimateTokens(std::string_view body);

}  // namespace kvgate::translate
