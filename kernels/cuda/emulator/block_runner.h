// BlockRunner: runs the threads of a kernel launch on the CPU, block after block, each thread on a
// fiber. It emulates a device for the CUDA kernels: all conformance and engine tests run
// on it, also in CI. It checks arithmetic, indexing, barriers and forbidden divergence of lanes. It
// says nothing about speed, and reveals a missing barrier only if the order of threads matters
// (Order::kReversed and kShuffled exist for that).
//
// It is stricter than a device if that reveals mistakes: shared memory starts as NaN, asynchronous
// copies arrive only when they are waited for, all lanes of a warp must execute the same collective
// operation, and a barrier that some threads never reach ends the process with a message.
//
// Only one launch runs at a time in a process; other system threads wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace kvgate::kernels::cuda::emulator {

struct Index3 {
  unsigned int x = 0, y = 0, z = 0;
};
struct Extent3 {
  unsigned int x = 1, y = 1, z = 1;
};

// The order in which a block's runnable threads, and a launch's blocks, are executed.
enum class Order : uint8_t { kForward, kReversed, kShuffled };
// Applies to later launches of all system threads. The environment variable
// KVGATE_CUDA_EMULATOR_ORDER sets the initial value: forward (the default), reversed or shuffled.
void SetOrder(Order order);

// Runs `body` once per thread. A block has at most 1024 threads, whole warps, in x only.
void RunGrid(Extent3 grid, unsigned int block_threads, size_t shared_bytes,
             const std::function<void()>& body);

// --- for a running thread's use ---------------------------------------------------------------

struct ThreadPlace {
  Index3 thread_index;
  Index3 block_index;
  Extent3 block_extent;
  Extent3 grid_extent;
};
const ThreadPlace& CurrentPlace();
std::byte* CurrentShared();  // [shared_bytes], of the current block

// Waits for all threads of the block that have not ended.
void Barrier();

// Takes one lane's part in a collective operation of its warp, named by `operation`: all 32 lanes
// must call it with the same one. The last lane calls run(lanes), with lanes[i] being lane i's
// operands.
using CollectiveRun = void (*)(void* const* lanes);
void Collective(const char* operation, void* operands, CollectiveRun run);

// Starts an asynchronous copy of this thread to shared memory: `bytes` of `from`, then zeros up to
// `to_bytes`. The copy happens only when a wait covers its group.
void CopyLater(void* to, size_t to_bytes, const void* from, size_t bytes);
void CopyCommit();
void CopyWait(int groups_left);  // all but the newest groups_left groups

// Takes one lane's part in asynchronous work of its warp. `run` receives a copy of each lane's
// operands, of `bytes`, only when the lanes wait for its group. All lanes must start the same work,
// as for a Collective. The process ends if a thread ends before waiting for its work.
void WorkLater(CollectiveRun run, const void* operands, size_t bytes);
void WorkCommit();
void WorkWait(int groups_left);

// A device may add the 16 products of a WarpgroupMma differently from those of an Mma. After
// SetWarpgroupsRound(true) the emulator does so too: it rounds after each addition.
void SetWarpgroupsRound(bool do_round);
bool WarpgroupsRound();

}  // namespace kvgate::kernels::cuda::emulator
