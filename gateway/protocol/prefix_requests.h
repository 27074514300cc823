// The bodies of kvgate's own prefix endpoints: what to warm, and how to pin.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <kvgate/result.h>

#include "gateway/protocol/form/completion.h"
#include "gateway/protocol/decode_limits.h"

namespace kvgate::protocol {

inline constexpr int kPinPriorityMax = 1000;

// {"name", "version", "priority", "ttl_seconds", "pin"}, all of them optional.
struct PinOptions {
  bool pin = false;  // absent: whether any of the others is there
  std::string name;
  std::string version;
  int priority = 1;         // 1 to kPinPriorityMax
  int64_t ttl_seconds = 0;  // 0: for good
};

struct WarmRequest {
  CompletionRequest request;
  PinOptions pin;
};

// A body of either completion dialect, told apart by "messages" and "prompt", with PinOptions in
// "kvgate". What only matters to an answer ("stream", "max_tokens") is checked and has no effect.
Result<WarmRequest> DecodeWarm(std::string_view body, const DecodeLimits& limits);

// PinOptions alone; an empty body is an empty object.
Result<PinOptions> DecodePinOptions(std::string_view body, const DecodeLimits& limits);

}  // namespace kvgate::protocol
