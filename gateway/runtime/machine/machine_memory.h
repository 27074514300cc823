// MachineMemory: how much of the machine's memory this process may use.
#pragma once

#include <cstdint>

namespace kvgate::runtime::machine {

// The machine's memory or its control group's limit, in bytes; 0 if unknown.
uint64_t MemoryLimit();
// Memory that is free now or can be reclaimed, in bytes; 0 if unknown.
uint64_t AvailableMemory();
// The lesser of two sizes of which 0 means unknown; 0 if both are.
uint64_t LesserKnown(uint64_t a, uint64_t b);

}  // namespace kvgate::runtime::machine
