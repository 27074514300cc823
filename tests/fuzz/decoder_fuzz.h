// What the fuzz targets of both dialects ask of a decoder: a request inside its limits, or an error
// that can be sent.
#pragma once

#include <simdjson.h>

#include <cstdlib>
#include <string>

#include <kvgate/result.h>

#include "gateway/protocol/form/completion.h"
#include "gateway/protocol/decode_limits.h"
#include "gateway/protocol/form/errors.h"

namespace kvgate::protocol {

inline void CheckDecoded(const Result<CompletionRequest>& decoded, const DecodeLimits& limits) {
  if (!decoded) {
    const bool expected = decoded.error().code == ErrorCode::kInvalidArgument ||
                          decoded.error().code == ErrorCode::kUnsupported ||
                          decoded.error().code == ErrorCode::kTooLarge;
    simdjson::dom::parser parser;
    const std::string encoded = EncodeError(decoded.error());
    if (!expected || parser.parse(encoded).error() != simdjson::SUCCESS) std::abort();
    return;
  }
  if (decoded->stop.size() > limits.stop_strings_max) std::abort();
  for (const std::string& stop : decoded->stop) {
    if (stop.empty() || stop.size() > limits.stop_string_bytes_max) std::abort();
  }
  if (decoded->max_tokens && *decoded->max_tokens < 0) std::abort();
  if (!(decoded->temperature >= 0) || decoded->num_logprobs > 20) std::abort();
}

}  // namespace kvgate::protocol
