// Request translation: a body of one dialect as a body of another.
//
// Pure: the same bytes give the same bytes, and what a conversation's translation has in front of
// its last turn is what its longer self has there too, because the upstream's cache hangs on it.
// What the target cannot say is an error that names the caller's field; hints are mapped or left
// out, as the README's table says. Any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "gateway/protocol/form/completion.h"
#include "gateway/protocol/reply_encoder.h"
#include "gateway/translate/request_form.h"

namespace kvgate::translate {

struct TranslateRequestArgs {
  protocol::Dialect from = protocol::Dialect::kChatCompletions;
  protocol::Dialect to = protocol::Dialect::kMessages;
  std::string_view body;  // of at most a server's limit on bodies
  TargetTraits target = {};
  protocol::OutputLimit output = {};
};

struct TranslatedRequest {
  std::string body = {};
  std::string_view path;  // a literal: "/v1/messages"
  bool stream = false;    // as the caller wants it
  bool include_usage = false;
  protocol::ResponseShape shape = {};      // for a caller of Responses
  std::vector<protocol::Tool> tools = {};  // those whose calls the reply must name back
  // What the body goes without, as in gateway/protocol/left_out.h, and where that is something,
  // what tells one caller's conversations apart.
  std::vector<std::string> left_out = {};
  std::string opening = {};
};

// Chat Completions, Responses and Messages, `from` and `to` different. kInvalidArgument,
// kUnsupported: the field at fault is named; kThreadSource as in gateway/protocol.
Result<TranslatedRequest> TranslateRequest(const TranslateRequestArgs& args);

// "/v1/chat/completions", "/v1/responses", "/v1/messages". REQUIRES: one of the three.
std::string_view PathOfDialect(protocol::Dialect dialect);

// Of a body of Messages: about how many tokens its prompt has, for an upstream that does not count.
// Estimated high rather than low: clients ask in order to stay below a limit.
Result<int64_t> EstimateTokens(std::string_view body);

}  // namespace kvgate::translate
