#include "kernels/cuda/device/device_error.h"

#include <fmt/format.h>

#include "base/check.h"

namespace kvgate::kernels::cuda::device {

Error DeviceError(cudaError_t error, const std::string& doing) {
  const bool is_memory = error == cudaErrorMemoryAllocation;
  return Error{.code = is_memory ? ErrorCode::kOverloaded : ErrorCode::kInternal,
               .source = "kernels.cuda",
               .detail = fmt::format("{}: {}", doing, cudaGetErrorString(error)),
               .retryable = is_memory};
}

void CheckDevice(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) [[likely]]
    return;
  const std::string message = fmt::format("{}: {}", doing, cudaGetErrorString(error));
  CheckFailed(__FILE__, __LINE__, "the device answers", message.c_str());
}

}  // namespace kvgate::kernels::cuda::device
