// The CUDA backend: our own kernels on one device and its memory. If the machine has no device or
// the build had no nvcc, there is no backend, and the error says which.
//
// The numerics `invariant` keep the promise of kernels/backend.h: MatMul and Attention have the
// same order of accumulation for every number of rows. `fast` passes dense products to cuBLASLt,
// whose order depends on the shape; then decode and prefill write different bits, and
// Info().invariant is false. For a product with weights of at most 16 bits, the rows of x and of
// the weights are scaled and rounded to f16 (11 significant bits, see matmul.h); f32 weights are
// multiplied in f32. Attention splits q and its probabilities into 16-bit parts (attention.h).
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

// Returns true if this build has the CUDA backend.
bool IsCudaBuilt();
// Returns the devices this process can use; empty if there are none. Returns kUnavailable with the
// driver's reason if devices exist but cannot be used (driver older than the toolkit, failing
// device).
Result<std::vector<CudaDevice>> FindCudaDevices();
// Returns kUnavailable without CUDA in the build, without a device, or if its compute capability is
// below 8.0; kUnsupported for is_fast without libcublasLt; kOverloaded if device memory is full.
Result<std::unique_ptr<Backend>> MakeCudaBackend(const CudaBackendOptions& options);

}  // namespace kvgate::kernels::cuda
