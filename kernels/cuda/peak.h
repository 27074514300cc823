// The limits of a device, measured: what fractions of a limit are reported against. Each call takes
// less than a second, on the current device; 0 where the memory for it is not there.
#pragma once

namespace kvgate::kernels::cuda {

// Bytes per second that a copy within device memory reads and writes, together: the best of several
// passes over 1 GiB.
double MeasureCopyBandwidth();

// Bytes per second between page-locked host memory and the device, one way at a time: the best of
// several passes over 256 MiB.
double MeasureUploadBandwidth();
double MeasureDownloadBandwidth();

// f16 operations per second with f32 sums, a multiply-add being two: a product of random matrices
// by cublasLt where that can be loaded, else matrix instructions on registers.
struct TensorPeak {
  double operations_per_second = 0;
  bool is_cublas = false;
};
TensorPeak MeasureTensorPeak();

}  // namespace kvgate::kernels::cuda
