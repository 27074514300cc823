// The fuzz targets of the dialects require this of a decoder: it yields a request within its
// limits, or an error that can be sent.
#pragma once

#include <simdjson.h>

#include <cstdlib>
#include <string>

#include "base/result.h"
#include "gateway/dialect/form/completion.h"
#include "gateway/dialect/form/decode_limits.h"
#include "gateway/dialect/form/errors.h"

namespace kvgate::dialect {

inline void CheckDecoded(const Result<form::CompletionRequest>& decoded,
                         const form::DecodeLimits& limits) {
  if (!decoded) {
    const bool expected = decoded.error().code == ErrorCode::kInvalidArgument ||
                          decoded.error().code == ErrorCode::kUnsupported ||
                          decoded.error().code == ErrorCode::kTooLarge;
    simdjson::dom::parser parser;
    const std::string encoded = form::EncodeError(decoded.error());
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

}  // namespace kvgate::dialect
