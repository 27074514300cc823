// Fuzzes the decoder of the Messages dialect.
#include "gateway/dialect/messages/messages.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/decoder_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvgate::dialect;
  const form::DecodeLimits limits{.stop_strings_max = 4, .stop_string_bytes_max = 16};
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  CheckDecoded(messages::DecodeMessages(body, messages::MessagesUse::kCreate, limits), limits);
  return 0;
}
