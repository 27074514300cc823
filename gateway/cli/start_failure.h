// StartFailure: what the system did not give a server that starts, in the terms of its
// configuration: what was wanted, how much of it, and which setting asks for less.
#pragma once

#include <cstdint>
#include <new>
#include <string_view>
#include <system_error>

#include <kvgate/result.h>

#include "gateway/config/config.h"

namespace kvgate::cli {

// What bounds this process. UINT64_MAX: nothing does.
struct ProcessLimits {
  uint64_t address_bytes = UINT64_MAX;  // ulimit -v
  uint64_t stack_bytes = 0;             // of address space, for each thread; 0: not known
  uint64_t threads = UINT64_MAX;        // ulimit -u
};
ProcessLimits ReadProcessLimits();

// kOverloaded. `refused`: "memory", "a thread (Resource temporarily unavailable)".
Error StartFailure(const config::Config& config, const ProcessLimits& limits,
                   std::string_view refused);
Error StartFailure(const config::Config& config, const std::system_error& failure);
Error StartFailure(const config::Config& config, const std::bad_alloc&);

}  // namespace kvgate::cli
