// Failure: why a request failed, as the C interface tells it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sdk/include/kvgate.h"

namespace kvgate::sdk::transport {

struct Failure {
  kvgate_status status = KVGATE_INTERNAL;
  std::string message;
  std::string field = {};
  std::string code = {};
  int http_status = 0;  // 0: there was no answer
  uint32_t retry_after_ms = 0;
  std::string request_id = {};
};

// Of something that failed in this process.
Failure ToFailure(const Error& error);
// Of an answer that says so: its status and body, in any of the dialects.
Failure ToFailure(int http_status, std::string_view body);
// Of an error that came in a stream that had begun: the JSON of its event.
Failure StreamFailure(std::string_view event);

}  // namespace kvgate::sdk::transport
