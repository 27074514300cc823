// The Responses dialect: decodes bodies, and encodes replies as numbered events or one response
// object. response_items.h describes the items of a conversation, prompt_builder.h how they become
// a prompt.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/dialect/form/completion.h"
#include "gateway/dialect/form/decode_limits.h"
#include "gateway/dialect/reply/reply_choice.h"
#include "gateway/dialect/reply/reply_encoder.h"
#include "gateway/dialect/responses/response_items.h"

namespace kvgate::dialect::responses {

struct ResponsesRequest {
  form::CompletionRequest request;  // its prompt is empty; PromptBuilder makes it
  std::string instructions;
  std::vector<responses::ResponsesItem> input;
  std::string previous_response_id;  // empty: none
  std::string conversation;          // empty: none
  bool store = true;
  bool truncates = false;  // the oldest turns may be left out if the prompt does not fit
  bool keeps_all = false;  // it is said that they may not
  reply::ResponseShape shape;
};

struct DecodeResponsesArgs {
  std::string_view body;
  std::string_view request_id;  // for the ids of items that have none
};
// Returns kInvalidArgument or kUnsupported with the field at fault. field_reader.h has the rules.
Result<ResponsesRequest> DecodeResponses(const DecodeResponsesArgs& args,
                                         const form::DecodeLimits& limits);

// The decoded body of a request to /v1/conversations or to its items.
struct ConversationBody {
  std::vector<responses::ResponsesItem> items;
  std::string metadata;  // JSON; empty if none is given
};
Result<ConversationBody> DecodeConversation(const DecodeResponsesArgs& args,
                                            const form::DecodeLimits& limits);

std::unique_ptr<reply::ReplyEncoder> MakeResponsesEncoder(reply::ReplyOptions options);

// Returns the items of an answer that ended for this reason, as its response shows them.
std::vector<responses::ResponsesItem> EncodeOutput(const reply::ReplyOptions& options,
                                                   const reply::ReplyChoice& answer,
                                                   form::FinishReason reason);
// Returns the response object as it is later fetched by its id: what its client got, without the
// kvgate object.
std::string EncodeResponse(const reply::ReplyOptions& options, const form::FinishEvent& finish,
                           const std::vector<responses::ResponsesItem>& output);
// Returns the items of the answer in such an object.
Result<std::vector<responses::ResponsesItem>> OutputOf(std::string_view response);

// Encodes {"object":"response.input_tokens","input_tokens":…}.
std::string EncodeInputTokens(int64_t num_tokens);

struct ConversationView {
  std::string_view id;
  int64_t created_unix = 0;
  std::string_view metadata;  // JSON
};
std::string EncodeConversation(const ConversationView& conversation);
// Encodes {"id","object":"response.deleted" or the like,"deleted":true}.
std::string EncodeDeleted(std::string_view id, std::string_view object);

}  // namespace kvgate::dialect::responses
