// Measures the limits of a device, relative to which performance is reported. A call takes a few
// seconds.
#pragma once

#include "base/result.h"

namespace kvgate::kernels::cuda {

struct DeviceLimits {
  // Bytes read plus bytes written by a copy within device memory, much larger than its caches.
  double copy_bytes_per_second = 0;
  // Between page-locked host memory and the device, each direction alone.
  double host_to_device_bytes_per_second = 0;
  double device_to_host_bytes_per_second = 0;
  // Products of f16 matrices of random numbers with f32 sums; a multiply-add counts as two
  // operations. Measured with cublasLt if it can be loaded, else with matrix instructions on
  // registers.
  double half_flops_per_second = 0;
  bool is_cublas = false;
};

// A value is 0 if there is not enough memory to measure it. Returns kUnavailable if there is no
// such device or the build has no CUDA. The device stays the calling thread's current one.
Result<DeviceLimits> MeasureDeviceLimits(int device);

}  // namespace kvgate::kernels::cuda
