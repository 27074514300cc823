// What the CUDA runtime answers, as errors of ours.
#pragma once

#include <string>

#include <kvgate/result.h>

#include "kernels/cuda/runtime.h"

namespace kvgate::kernels::cuda {

// An error of the device as one of ours: kOverloaded where memory is not there, else kInternal.
// `doing` says what was tried: "allocate 16 MiB for the KV arena".
Error DeviceError(cudaError_t error, const std::string& doing);

// For calls that fail only when the device or our own code is broken: ends the process with the
// device's message.
void CheckDevice(cudaError_t error, const char* doing);

}  // namespace kvgate::kernels::cuda
