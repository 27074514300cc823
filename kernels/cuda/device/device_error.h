// Conversion of CUDA runtime errors to Error.
#pragma once

#include <string>

#include "base/result.h"
#include "kernels/cuda/device/runtime.h"

namespace kvgate::kernels::cuda::device {

// Returns kOverloaded if the device is out of memory, else kInternal. `doing` says what was tried,
// such as "allocate 16 MiB for the KV arena".
Error DeviceError(cudaError_t error, const std::string& doing);

// For calls that fail only if the device or our own code is broken: ends the process with the
// device's message.
void CheckDevice(cudaError_t error, const char* doing);

}  // namespace kvgate::kernels::cuda::device
