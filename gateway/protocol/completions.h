// The (legacy) Completions dialect: bodies in, chunks or one body out.
#pragma once

#include <memory>
#include <string_view>

#include <kvgate/result.h>

#include "gateway/protocol/form/completion.h"
#include "gateway/protocol/decode_limits.h"
#include "gateway/protocol/reply_encoder.h"

namespace kvgate::protocol {

// kInvalidArgument or kUnsupported, with the field at fault. Rules: field_reader.h.
Result<CompletionRequest> DecodeCompletions(std::string_view body, const DecodeLimits& limits);

std::unique_ptr<ReplyEncoder> MakeCompletionsEncoder(ReplyOptions options);

}  // namespace kvgate::protocol
