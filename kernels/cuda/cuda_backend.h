// The CUDA backend: kernels of our own, one device, its memory. On a machine without a device, or
// in a build without nvcc, there is none, and the error says which.
//
// Numerics `invariant` keeps the promise of kernels/backend.h: MatMul and Attention have one order
// of accumulation for every number of rows. `fast` gives dense products to cuBLASLt, whose order
// depends on the shape: then decode and prefill write different bits, and Info().invariant is
// false. x is rounded to 11 bits of each row's magnitude before a product with weights of 16 bits
// or less, the weights to 11 bits of theirs; f32 weights are multiplied in f32. Attention rounds
// its probabilities to f16.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace kvgate::kernels::cuda {

struct CudaBackendOptions {
  int device = 0;  // ordinal
  bool is_fast = false;
  bool uses_graphs = true;
};

struct CudaDevice {
  int ordinal = 0;
  std::string name;
  int major = 0;  // compute capability
  int minor = 0;
  int num_multiprocessors = 0;
  uint64_t bytes_total = 0;
  uint64_t bytes_free = 0;
};

// Whether this build has the CUDA backend.
bool IsCudaBuilt();
// The devices this process can use; empty where there is none. kUnavailable with the driver's
// reason where there should be some (a driver older than the toolkit, a device that fails).
Result<std::vector<CudaDevice>> FindCudaDevices();
// kUnavailable: not built with CUDA, no device, or one older than compute capability 8.0;
// kUnsupported: is_fast without libcublasLt; kOverloaded: its memory is full.
Result<std::unique_ptr<Backend>> MakeCudaBackend(const CudaBackendOptions& options);

}  // namespace kvgate::kernels::cuda
