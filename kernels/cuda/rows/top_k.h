// TopK: Backend::TopK on the device, in two kernels.
//
// 1. A thread processes a group of 4 to 32 columns and writes the group's greatest entry. A block
//    processes a slice of 256 groups and sums its exponentials relative to the slice's maximum.
// 2. A block processes a row. An entry is a value and its column in 64 bits, so no two are equal.
//    The `count`-th greatest of the groups' greatest entries is a bar. At least `count` entries
//    reach it, and all that do are in the `count` groups whose greatest entry reaches it. These
//    groups are read again, the entries that reach the bar (seldom many more than `count`) are
//    ranked by counting, and the slices' sums are joined in order.
// So a row is read once, and sums and order depend on its columns alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/device/command_stream.h"

namespace kvgate::kernels::cuda::rows {

// Bytes of scratch that TopK needs; increases with both arguments.
size_t TopKScratchBytes(int num_rows, int64_t columns);

// Records the kernels without waiting. The task's x and `scratch` (256-aligned, TopKScratchBytes
// long) are device memory. `to` is device memory or page-locked host memory to which the device
// writes, which saves a copy; its content is valid after the stream's Synchronize. The scales are
// staged. Calls with the same x, scratch, `to`, columns and count give equal commands if their
// numbers of rows have the same next power of two. Contract: TopK of kernels/backend.h.
void TopK(device::CommandStream& stream, const TopKTask& task, void* scratch, const TopKResult& to);

}  // namespace kvgate::kernels::cuda::rows
