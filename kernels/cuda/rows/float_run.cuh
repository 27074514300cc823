// FloatRun: four adjacent floats, accessed as 16 bytes if they are aligned. The row kernels use it.
// The values do not depend on how they are read, so a row has the same bits at every address.
#pragma once

#include "kernels/cuda/device/device.cuh"

namespace kvgate::kernels::cuda::rows {

inline constexpr int kRunFloats = 4;

struct alignas(16) FloatRun {
  float value[kRunFloats];
};

// Loads values [begin, begin + 4) of `from`; those at or past `end` are 0.
KVGATE_DEVICE FloatRun LoadRun(const float* from, int64_t begin, int64_t end, bool is_aligned) {
  if (is_aligned && begin + kRunFloats <= end) {
    return *reinterpret_cast<const FloatRun*>(from + begin);
  }
  FloatRun run = {};
  KVGATE_UNROLL
  for (int i = 0; i < kRunFloats; ++i) {
    if (begin + i < end) run.value[i] = from[begin + i];
  }
  return run;
}

KVGATE_DEVICE void StoreRun(const FloatRun& run, float* to, int64_t begin, int64_t end,
                            bool is_aligned) {
  if (is_aligned && begin + kRunFloats <= end) {
    *reinterpret_cast<FloatRun*>(to + begin) = run;
    return;
  }
  KVGATE_UNROLL
  for (int i = 0; i < kRunFloats; ++i) {
    if (begin + i < end) to[begin + i] = run.value[i];
  }
}

// Returns true if rows of `columns` floats at these addresses can be accessed as aligned runs.
template <typename... Pointers>
inline bool AreRunsAligned(int64_t columns, const Pointers*... pointers) {
  return columns % kRunFloats == 0 &&
         ((reinterpret_cast<uintptr_t>(pointers) % sizeof(FloatRun) == 0) && ...);
}

}  // namespace kvgate::kernels::cuda::rows
