// The Messages dialect (Anthropic): bodies in, named events or one body out.
//
// A turn's blocks become messages of the one form: tool results first, as turns of their own, then
// the text; neighbouring turns of one role are one, as the API has it. A system text among the
// messages becomes part of the user turn beside it and stays where it is: moving it to the front
// would change the prefix. cache_control says which turns' ends are worth keeping.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <kvgate/result.h>

#include "gateway/protocol/form/completion.h"
#include "gateway/protocol/decode_limits.h"
#include "gateway/protocol/reply_encoder.h"

namespace kvgate::protocol {

// What a body is for: an answer needs max_tokens, counting needs none.
enum class MessagesUse : uint8_t { kCreate, kCount };

// kInvalidArgument or kUnsupported, with the field at fault; kThreadSource, kThreadLostSource.
// Rules: field_reader.h.
Result<CompletionRequest> DecodeMessages(std::string_view body, MessagesUse use,
                                         const DecodeLimits& limits);

std::unique_ptr<ReplyEncoder> MakeMessagesEncoder(ReplyOptions options);

// {"input_tokens":…}
std::string EncodeTokenCount(int64_t num_tokens);

}  // namespace kvgate::protocol
