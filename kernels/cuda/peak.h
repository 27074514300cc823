// The limits of a device, measured: what fractions of a limit are reported against. A call takes a
// few seconds.
#pragma once

#include <kvgate/result.h>

namespace kvgate::kernels::cuda {

struct DeviceLimits {
  // Bytes read and written together by a copy within device memory, far larger than its caches.
  double copy_bytes_per_second = 0;
  // Between page-locked host memory and the device, each way alone.
  double host_to_device_bytes_per_second = 0;
  double device_to_host_bytes_per_second = 0;
  // Of products of f16 matrices of random numbers with f32 sums; a multiply-add counts as two.
  double half_flops_per_second = 0;
};

// kUnavailable: no such device, or not built with CUDA.
Result<DeviceLimits> MeasureDeviceLimits(int device);

}  // namespace kvgate::kernels::cuda
