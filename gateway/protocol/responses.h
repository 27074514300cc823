// The Responses dialect: bodies in, numbered events or one response object out. What a conversation
// consists of: response_items.h; how it becomes a prompt: prompt_builder.h.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "gateway/protocol/form/completion.h"
#include "gateway/protocol/decode_limits.h"
#include "gateway/protocol/reply_choice.h"
#include "gateway/protocol/reply_encoder.h"
#include "gateway/protocol/form/response_items.h"

namespace kvgate::protocol {

struct ResponsesRequest {
  CompletionRequest request;  // its prompt is empty: PromptBuilder makes it
  std::string instructions;
  std::vector<ResponsesItem> input;
  std::string previous_response_id;  // empty: none
  std::string conversation;          // likewise
  bool store = true;
  bool truncates = false;  // what does not fit may be left out at the front
  ResponseShape shape;
};

struct DecodeResponsesArgs {
  std::string_view body;
  std::string_view request_id;  // for the ids of items that have none
};
// kInvalidArgument or kUnsupported, with the field at fault. Rules: field_reader.h.
Result<ResponsesRequest> DecodeResponses(const DecodeResponsesArgs& args,
                                         const DecodeLimits& limits);

// Of a body of /v1/conversations, or of its items.
struct ConversationBody {
  std::vector<ResponsesItem> items;
  std::string metadata;  // JSON; empty: none is given
};
Result<ConversationBody> DecodeConversation(const DecodeResponsesArgs& args,
                                            const DecodeLimits& limits);

std::unique_ptr<ReplyEncoder> MakeResponsesEncoder(ReplyOptions options);

// The items of an answer that ended so, as its response shows them.
std::vector<ResponsesItem> EncodeOutput(const ReplyOptions& options, const ReplyChoice& answer,
                                        FinishReason reason);
// The response object as it is found by its id: what its client got, without an explanation.
std::string EncodeResponse(const ReplyOptions& options, const FinishEvent& finish,
                           const std::vector<ResponsesItem>& output);
// Of such an object: the items of its answer.
Result<std::vector<ResponsesItem>> OutputOf(std::string_view response);

// {"object":"response.input_tokens","input_tokens":…}
std::string EncodeInputTokens(int64_t num_tokens);

struct ConversationView {
  std::string_view id;
  int64_t created_unix = 0;
  std::string_view metadata;  // JSON
};
std::string EncodeConversation(const ConversationView& conversation);
// {"id","object":"response.deleted" or the like,"deleted":true}
std::string EncodeDeleted(std::string_view id, std::string_view object);

}  // namespace kvgate::protocol
