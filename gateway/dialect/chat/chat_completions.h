// The Chat Completions dialect: decodes bodies, and encodes replies as chunks or one body.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "gateway/dialect/form/completion.h"
#include "gateway/dialect/form/decode_limits.h"
#include "gateway/dialect/reply/reply_encoder.h"

namespace kvgate::dialect::chat {

// Returns kInvalidArgument or kUnsupported with the field at fault. field_reader.h has the rules.
Result<form::CompletionRequest> DecodeChatCompletions(std::string_view body,
                                                      const form::DecodeLimits& limits);

std::unique_ptr<reply::ReplyEncoder> MakeChatCompletionsEncoder(reply::ReplyOptions options);

}  // namespace kvgate::dialect::chat
