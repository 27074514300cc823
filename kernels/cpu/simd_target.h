// Which SIMD targets this build has, which this machine can run, and the kernels of one of them.
//
// Highway's own dynamic dispatch chooses once per process; a backend holds its target's function
// pointers instead, so that backends of different targets live side by side (the tests compare
// them).
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

namespace kvgate::kernels::cpu {

// Highway target bits this machine can run, best first.
std::vector<int64_t> SupportedTargets();
// "AVX2"
std::string TargetName(int64_t target);
// "" is the best one. kUnsupported names what there is.
Result<int64_t> FindTarget(std::string_view name);

// While it lives, HWY_DYNAMIC_DISPATCH chooses `target`. Used by the *KernelsFor functions only.
class ScopedTarget {
 public:
  explicit ScopedTarget(int64_t target);
  ~ScopedTarget();
  ScopedTarget(const ScopedTarget&) = delete;
  ScopedTarget& operator=(const ScopedTarget&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace kvgate::kernels::cpu
