// Decodes the bodies of kvgate's own prefix endpoints: what to warm, and how to pin.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/dialect/form/completion.h"
#include "gateway/dialect/form/decode_limits.h"

namespace kvgate::dialect::own {

inline constexpr int kPinPriorityMax = 1000;

// {"name", "version", "priority", "ttl_seconds", "pin"}, all optional.
struct PinOptions {
  bool pin = false;  // if absent, true if any other field is given
  std::string name;
  std::string version;
  int priority = 1;         // 1 to kPinPriorityMax
  int64_t ttl_seconds = 0;  // 0 means that the pin never expires
};

struct WarmRequest {
  form::CompletionRequest request;
  PinOptions pin;
};

// Decodes a body of either completion dialect, told apart by "messages" and "prompt", with
// PinOptions in "kvgate". Fields that only concern an answer ("stream", "max_tokens") are checked
// and ignored.
Result<WarmRequest> DecodeWarm(std::string_view body, const form::DecodeLimits& limits);

// Decodes PinOptions alone; an empty body counts as an empty object.
Result<PinOptions> DecodePinOptions(std::string_view body, const form::DecodeLimits& limits);

}  // namespace kvgate::dialect::own
