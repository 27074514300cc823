// Includes the CUDA runtime or, if KVGATE_CUDA_EMULATED is set, the emulator's part of it under the
// same names. Every file of kernels/cuda includes this header for it.
#pragma once

#if KVGATE_CUDA_EMULATED
#include "kernels/cuda/emulator/cuda_runtime.h"  // IWYU pragma: export
#else
#include <cuda_runtime.h>  // IWYU pragma: export
#endif
