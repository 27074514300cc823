// The CPU backend: Highway kernels, dispatched at run time to the best SIMD target of the machine.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.h"

namespace kvgate::kernels::cpu {

struct CpuBackendOptions {
  int num_threads = 0;  // 0: one per hardware thread
  // "": the best this machine has; else the name of one ("AMX", "avx2"), in either case.
  std::string target;
};

// kUnsupported when the named target is not compiled in or not supported by this machine.
Result<std::unique_ptr<Backend>> MakeCpuBackend(const CpuBackendOptions& options);

// The targets of this build that this machine can run, best first.
std::vector<std::string> SupportedCpuTargets();
// The one that a backend with this option would have.
Result<std::string> FindCpuTarget(std::string_view target);
// What this machine could have but has not, and why; empty: nothing.
std::string MissingCpuTargets();

}  // namespace kvgate::kernels::cpu
