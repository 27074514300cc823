// MachineMemory: what this process may use of the machine's memory.
#pragma once

#include <cstdint>

namespace kvgate::cli {

// All of it: the machine's memory, or its control group's limit. 0: not known.
uint64_t MemoryLimit();
// What of the machine's memory is free or can be freed now. 0: not known.
uint64_t AvailableMemory();

}  // namespace kvgate::cli
