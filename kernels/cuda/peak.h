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
  // Of products of f16 matrices of random numbers with f32 sums; a multiply-add counts as two. By
  // cublasLt where that can be loaded, else of matrix instructions on registers.
  double half_flops_per_second = 0;
  bool is_cublas = false;
};

// A figure is 0 where the memory for it is not there. kUnavailable: no such device, or not built
// with CUDA. The device stays the calling thread's current one.
Result<DeviceLimits> MeasureDeviceLimits(int device);

}  // namespace kvgate::kernels::cuda
