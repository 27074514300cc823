// TopRows: Backend::TopRows on the device, in two kernels.
//
// 1. A thread takes a group of 4 to 32 columns and writes the group's greatest entry; a block takes
//    a slice of 256 groups and sums its exponentials below the slice's own maximum.
// 2. A block takes a row. An entry is a value and its column in 64 bits, so no two are equal: the
//    `count`-th greatest of the groups' greatest is a bar that at least `count` entries reach, and
//    all of these lie in the `count` groups that reach it. They are read again, what reaches the
//    bar (seldom more than a few beyond `count`) is ranked by counting, and the slices' sums are
//    joined in order.
// So a row is read once, and sums and order depend on its columns alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/command_stream.h"

namespace kvgate::kernels::cuda {

// Of TopRows' scratch; it grows with both.
size_t TopRowsScratchBytes(int num_rows, int64_t columns);

// Notes the kernels; nothing waits. The task's x and `scratch` (256-aligned, so many bytes) are
// device memory; `to` is device memory or, so that no copy is needed, page-locked host memory that
// the device writes to: its contents are there after the stream's Synchronize. scales are staged.
// The same x, scratch, `to`, columns and count and about as many rows (up to the next power of two)
// are equal commands. Contract: TopRows of kernels/backend.h.
void TopRows(CommandStream& stream, const TopRowsTask& task, void* scratch,
             const TopRowsResult& to);

}  // namespace kvgate::kernels::cuda
