// Writes answers in Gemini's dialect: as chunks of a stream, or as one body.
//
// A call is one part and goes out when it is whole. Thoughts go out only to callers that ask for
// them; what a provider wants back with them stands as thoughtSignature in the part that follows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "gateway/dialect/reply/reply_encoder.h"

namespace kvgate::dialect::gemini {

std::unique_ptr<reply::ReplyEncoder> MakeGeminiEncoder(reply::ReplyOptions options);

// Encodes the answer of countTokens: {"totalTokens":…}.
std::string EncodeTotalTokens(int64_t num_tokens);

}  // namespace kvgate::dialect::gemini
