// The CUDA runtime, or the emulator's part of it under the same names: what every file of this
// folder includes for it. KVGATE_CUDA_EMULATED chooses.
#pragma once

#if KVGATE_CUDA_EMULATED
#include "kernels/cuda/emulator/cuda_runtime.h"  // IWYU pragma: export
#else
#include <cuda_runtime.h>  // IWYU pragma: export
#endif
