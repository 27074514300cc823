// Fuzzes the decoder of the Completions dialect.
#include "gateway/dialect/completions/completions.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/decoder_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const kvgate::dialect::form::DecodeLimits limits{.stop_strings_max = 4,
                                                   .stop_string_bytes_max = 16};
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  kvgate::dialect::CheckDecoded(kvgate::dialect::completions::DecodeCompletions(body, limits),
                                limits);
  return 0;
}
