// Limits on the work that a body may cause in the decoders.
#pragma once

#include <cstddef>

namespace kvgate::dialect::form {

struct DecodeLimits {
  int json_depth_max = 64;        // nesting of objects and arrays
  size_t messages_max = 100'000;  // turns of one conversation
  size_t stop_strings_max = 16;
  size_t stop_string_bytes_max = 4096;
  size_t logit_biases_max = 1024;
  size_t tools_max = 1024;
  int choices_max = 128;  // prompts times answers per prompt; each is one engine request
};

}  // namespace kvgate::dialect::form
