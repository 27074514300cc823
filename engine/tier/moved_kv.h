// MovedKv: how much KV went to the disk and came back since the start, and the time that threads
// were busy with it.
#pragma once

#include <cstdint>

namespace kvgate::tier {

struct MovedKv {
  uint64_t num_blocks_written = 0;
  uint64_t write_bytes = 0;
  uint64_t write_us = 0;
  uint64_t load_bytes = 0;
  uint64_t load_us = 0;
};

}  // namespace kvgate::tier
