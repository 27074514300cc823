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

// A target is a bit of Highway's, or AVX3_DL's and this one: its kernels, and the tiles of AMX for
// what they are better at (matmul_amx.h).
inline constexpr int64_t kAmxBit = int64_t{1} << 62;

// The targets this machine can run, best first.
std::vector<int64_t> SupportedTargets();
// "AVX2"; "AVX512" and "AVX512_VNNI" for what Highway calls AVX3 and AVX3_DL; "AMX".
std::string TargetName(int64_t target);
// Whether sums along a row, and products, give the bits of AVX2.
bool HasFusedNumerics(int64_t target);
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
