// StartFailure: explains which system resource a starting server was refused, in terms of its
// configuration: how much it wanted and which setting reduces it.
#pragma once

#include <cstdint>
#include <new>
#include <string_view>
#include <system_error>

#include "base/result.h"
#include "gateway/config/config.h"

namespace kvgate::runtime::machine {

// The resource limits of this process; UINT64_MAX means unlimited.
struct ProcessLimits {
  uint64_t address_bytes = UINT64_MAX;  // ulimit -v
  uint64_t stack_bytes = 0;             // of address space, for each thread; 0: unknown
  uint64_t threads = UINT64_MAX;        // ulimit -u
};
ProcessLimits ReadProcessLimits();

// Returns a kOverloaded error. `refused` is, for example, "memory" or "a thread (Resource
// temporarily unavailable)".
Error StartFailure(const config::Config& config, const ProcessLimits& limits,
                   std::string_view refused);
Error StartFailure(const config::Config& config, const std::system_error& failure);
Error StartFailure(const config::Config& config, const std::bad_alloc&);

}  // namespace kvgate::runtime::machine
