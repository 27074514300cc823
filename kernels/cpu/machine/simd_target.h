// The SIMD targets of this build that this machine can run, and selection of the kernels of one.
//
// Highway's own dynamic dispatch chooses once per process. Here a backend holds the function
// pointers of its target instead, so that backends of different targets can coexist (tests compare
// them).
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvgate::kernels::cpu::machine {

// A target is a bit of Highway's, or AVX3_DL's combined with this one: the kernels of AVX3_DL, with
// AMX tiles for the products in which they are faster (matmul_amx.h).
inline constexpr int64_t kAmxBit = int64_t{1} << 62;

// Returns the targets this machine can run, best first.
const std::vector<int64_t>& SupportedTargets();
// Returns "AVX2"; "AVX512" and "AVX512_VNNI" for Highway's AVX3 and AVX3_DL; "AMX".
std::string TargetName(int64_t target);
// Returns true if sums along a row, and products, have the same bits as with AVX2.
bool HasFusedNumerics(int64_t target);
// "" means the best one. Returns kUnsupported with the list of available targets for an unknown
// name.
Result<int64_t> FindTarget(std::string_view name);

// While it lives, HWY_DYNAMIC_DISPATCH selects `target`. Used only by the *KernelsFor functions.
class ScopedTarget {
 public:
  explicit ScopedTarget(int64_t target);
  ~ScopedTarget();
  ScopedTarget(const ScopedTarget&) = delete;
  ScopedTarget& operator=(const ScopedTarget&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace kvgate::kernels::cpu::machine
