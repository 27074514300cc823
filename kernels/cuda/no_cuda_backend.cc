// The CUDA backend of a build without nvcc: every function reports that it is not available.
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/peak.h"

namespace kvgate::kernels::cuda {
namespace {

Error NotBuilt() {
  return MakeError(ErrorCode::kUnavailable, "kernels.cuda",
                   "this build has no CUDA backend: build it where nvcc is found, or use "
                   "--device cpu");
}

}  // namespace

bool IsCudaBuilt() { return false; }

Result<std::vector<CudaDevice>> FindCudaDevices() { return std::vector<CudaDevice>{}; }

Result<std::unique_ptr<Backend>> MakeCudaBackend(const CudaBackendOptions&) { return NotBuilt(); }

Result<DeviceLimits> MeasureDeviceLimits(int) { return NotBuilt(); }

}  // namespace kvgate::kernels::cuda
