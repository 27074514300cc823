// The Messages dialect (Anthropic): decodes bodies, and encodes replies as named events or one
// body.
//
// A turn's blocks become messages of the internal form: tool results first, as turns of their own,
// then the text. Adjacent turns of one role are merged, as the API does. A system text among the
// messages becomes part of the adjacent user turn and stays in place, because moving it to the
// front would change the prefix. Each cache_control becomes a cache breakpoint at the end of its
// turn.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/dialect/form/completion.h"
#include "gateway/dialect/form/decode_limits.h"
#include "gateway/dialect/reply/reply_encoder.h"

namespace kvgate::dialect::messages {

// The use of a body: an answer requires max_tokens, counting does not.
enum class MessagesUse : uint8_t { kCreate, kCount };

// Returns kInvalidArgument or kUnsupported with the field at fault, or an error with source
// kThreadSource or kThreadLostSource. field_reader.h has the rules.
Result<form::CompletionRequest> DecodeMessages(std::string_view body, MessagesUse use,
                                               const form::DecodeLimits& limits);

std::unique_ptr<reply::ReplyEncoder> MakeMessagesEncoder(reply::ReplyOptions options);

// Encodes {"input_tokens":…}.
std::string EncodeTokenCount(int64_t num_tokens);

}  // namespace kvgate::dialect::messages
