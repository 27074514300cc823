// The primitives that kernels are written with: lanes, barriers, half precision, matrix and copy
// instructions. Each has one name, which stands for a device instruction under nvcc and for a
// function of BlockRunner in the emulator. So there is one source per kernel, which is tested
// without a device.
//
// Arithmetic. `a * b + c` is never contracted (nvcc runs with -fmad=false, g++ with
// -ffp-contract=off): only Fma is fused. Division and square root are correctly rounded. The
// approximate functions (Exp2) give the same bits wherever they are called on one device.
//
// Rules for kernels:
//   * One argument, a trivially copyable struct by value; a block has whole warps, in x only.
//   * All 32 lanes of a warp execute the same shuffles, votes, matrix instructions and ldmatrix.
//   * Only dynamic shared memory, from SharedMemory(), 1024-aligned.
// Source: PTX ISA 8.x, "Matrix multiply-accumulate" for the fragments.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device/runtime.h"

#if KVGATE_CUDA_EMULATED

#include <cmath>
#include <cstring>

#define KVGATE_KERNEL
#define KVGATE_DEVICE inline
#define KVGATE_LAUNCH_BOUNDS(threads, blocks)
#define KVGATE_UNROLL
#define KVGATE_NO_UNROLL
#define threadIdx (::kvgate::kernels::cuda::emulator::CurrentPlace().thread_index)
#define blockIdx (::kvgate::kernels::cuda::emulator::CurrentPlace().block_index)
#define blockDim (::kvgate::kernels::cuda::emulator::CurrentPlace().block_extent)
#define gridDim (::kvgate::kernels::cuda::emulator::CurrentPlace().grid_extent)

#else

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define KVGATE_KERNEL __global__
#define KVGATE_DEVICE __device__ __forceinline__
#define KVGATE_LAUNCH_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)
#define KVGATE_UNROLL _Pragma("unroll")
#define KVGATE_NO_UNROLL _Pragma("unroll 1")

#endif

namespace kvgate::kernels::cuda::device {

inline constexpr int kWarpLanes = 32;

// 16 bytes in one access.
struct alignas(16) Vector16 {
  uint32_t word[4];
};

// --- threads ----------------------------------------------------------------------------------

KVGATE_DEVICE std::byte* SharedMemory();
// Waits for all threads of the block that have not ended; their earlier shared and global writes
// are visible afterwards.
KVGATE_DEVICE void SyncThreads();
KVGATE_DEVICE void SyncWarp();
KVGATE_DEVICE int LaneIndex();
KVGATE_DEVICE int WarpIndex();
// ShuffleXor returns the value of lane `own ^ mask`, Shuffle that of lane `lane`.
KVGATE_DEVICE float ShuffleXor(float value, int mask);
KVGATE_DEVICE uint32_t ShuffleXor(uint32_t value, int mask);
KVGATE_DEVICE float Shuffle(float value, int lane);
KVGATE_DEVICE uint32_t Shuffle(uint32_t value, int lane);
// Bit i of the result is lane i's value.
KVGATE_DEVICE uint32_t Ballot(bool value);
// Returns the sum of the lanes' values.
KVGATE_DEVICE uint32_t WarpSum(uint32_t value);
KVGATE_DEVICE void AtomicAdd(unsigned long long* to, unsigned long long value);
// Returns the previous value.
KVGATE_DEVICE uint32_t AtomicFetchAdd(uint32_t* to, uint32_t value);

// --- half precision, as bits; pairs hold the first value in the low half ----------------------

KVGATE_DEVICE float HalfToFloat(uint16_t bits);
KVGATE_DEVICE uint16_t FloatToHalf(float value);  // nearest even; infinity beyond f16
KVGATE_DEVICE uint32_t FloatsToHalf2(float low, float high);
KVGATE_DEVICE uint32_t HalfSub2(uint32_t a, uint32_t b);
KVGATE_DEVICE uint32_t HalfMul2(uint32_t a, uint32_t b);
KVGATE_DEVICE uint32_t HalfFma2(uint32_t a, uint32_t b, uint32_t c);  // a * b + c, rounded once
KVGATE_DEVICE float Bf16ToFloat(uint16_t bits);
KVGATE_DEVICE uint16_t FloatToBf16(float value);
KVGATE_DEVICE uint32_t FloatsToBf16x2(float low, float high);

// --- f32 --------------------------------------------------------------------------------------

KVGATE_DEVICE float Fma(float a, float b, float c);
KVGATE_DEVICE float Exp2(float x);  // 2^x to about 2 ulp; subnormal results are 0
KVGATE_DEVICE float BitsToFloat(uint32_t bits);
KVGATE_DEVICE uint32_t FloatToBits(float value);

// --- matrix instructions ----------------------------------------------------------------------

// c[16, 8] += a[16, 16] * b[16, 8] over a warp, f32 accumulation; a row of c depends on that row of
// a only, a column on that column of b. With g = lane / 4 and t = lane % 4 a lane holds
//   a: pairs along k, {row g, k 2t}, {row g + 8, k 2t}, {row g, k 2t + 8}, {row g + 8, k 2t + 8}
//   b: pairs along k, {k 2t, column g}, {k 2t + 8, column g}
//   c: {row g, column 2t}, {g, 2t + 1}, {g + 8, 2t}, {g + 8, 2t + 1}
KVGATE_DEVICE void MmaHalf(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
KVGATE_DEVICE void MmaBf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);

// Loads four 8 x 8 matrices of 16-bit values. Lane i gives the address of row i % 8 of matrix i / 8
// in shared memory, 16 bytes, aligned. A lane receives from each matrix the pair {row g, columns
// 2t, 2t + 1}; transposed: {rows 2t, 2t + 1, column g}.
KVGATE_DEVICE void LoadMatrices4(uint32_t (&to)[4], const void* row);
KVGATE_DEVICE void LoadMatrices4Transposed(uint32_t (&to)[4], const void* row);

// --- matrix instructions of four warps, on devices of 9.0 (compiled for sm_90a) -----------------

// d[64, kColumns] (+)= a[64, 16] * b[16, kColumns], computed asynchronously by the warps 4i .. 4i +
// 3 together; f32 accumulation from the old d or, if !accumulates, from zero. Warp w has the rows
// from 16 (w % 4) on: a lane's a is that of MmaHalf, its d[4j .. 4j + 3] is MmaHalf's c for columns
// from 8j on. b is kColumns rows of 64 f16 in shared memory, 1024-aligned, 128 bytes each, with
// chunk c (16 bytes) of row r at place c ^ r % 8; `step` selects which 16 of the 64 are k.
// kColumns: 128 or 192.
//   WarpgroupFence(a)      before the first of a group: a and d have their final values
//   WarpgroupMma ...
//   WarpgroupCommit()      ends the group
//   WarpgroupWait<n>()     waits for all but the newest n groups: a and b may be written again
//   WarpgroupWaitAll(d)    waits for all groups: d may be read
template <int kColumns>
KVGATE_DEVICE void WarpgroupMma(float (&d)[kColumns / 2], const uint32_t (&a)[4], const void* b,
                                int step, bool accumulates);
KVGATE_DEVICE void WarpgroupFence(uint32_t (&a)[2][4]);
KVGATE_DEVICE void WarpgroupCommit();
template <int kGroupsLeft>
KVGATE_DEVICE void WarpgroupWait();
template <int kCount>
KVGATE_DEVICE void WarpgroupWaitAll(float (&d)[kCount]);
// Makes this thread's writes to shared memory, including asynchronous copies that it has waited
// for, visible to the WarpgroupMma of every thread that passes a barrier with it afterwards.
KVGATE_DEVICE void PublishShared();

// --- memory -----------------------------------------------------------------------------------

// Reads 16 bytes that are needed once, without allocating them in the L1 cache.
KVGATE_DEVICE Vector16 LoadOnce(const void* from);
// Copies 16 bytes asynchronously from global to shared memory, both aligned. If !is_there, it
// writes zeros and does not read `from`. CopyCommit ends a group of the copies issued since the
// last one.
KVGATE_DEVICE void CopyAsync16(void* to, const void* from, bool is_there);
KVGATE_DEVICE void CopyCommit();
// Waits for all but the newest kGroupsLeft groups of this thread. Other threads see the data after
// a barrier.
template <int kGroupsLeft>
KVGATE_DEVICE void CopyWait();

}  // namespace kvgate::kernels::cuda::device

#if KVGATE_CUDA_EMULATED
#include "kernels/cuda/emulator/device-inl.cuh"
#else
#include "kernels/cuda/device/device-inl.cuh"
#endif
