// The CPU backend: Highway kernels, dispatched at run time to the best SIMD target of the machine.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.h"

namespace kvgate::kernels::cpu {

struct CpuBackendOptions {
  int num_threads = 0;  // 0 means one per hardware thread
  // Empty means the best target of this machine; else a name such as "AMX" or "avx2", in either
  // case.
  std::string target;
};

// Returns kUnsupported if the named target is not compiled in or not supported by this machine.
Result<std::unique_ptr<Backend>> MakeCpuBackend(const CpuBackendOptions& options);

// Returns the targets of this build that this machine can run, best first.
std::vector<std::string> SupportedCpuTargets();
// Returns the target that a backend with this option would use.
Result<std::string> FindCpuTarget(std::string_view target);
// Says which targets are unavailable on this machine and why; empty if none are missing.
std::string MissingCpuTargets();

}  // namespace kvgate::kernels::cpu
