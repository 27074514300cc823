// A trial of a device's two kinds of matrix instructions: the promise of `invariant` numerics holds
// across them only if both add in the same way, and nothing but the device itself says so.
#pragma once

#include <kvgate/result.h>

#include "kernels/cuda/command_stream.h"

namespace kvgate::kernels::cuda {

// Whether products by instructions of warpgroups have the bits of those by instructions of warps:
// 24,576 sums of 512 products whose magnitudes are far apart. REQUIRES: a device of 9.0.
// kOverloaded: no memory for the numbers (1 MiB).
Result<bool> WarpgroupsAddAlike(CommandStream& stream);

}  // namespace kvgate::kernels::cuda
