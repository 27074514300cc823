// BlockRunner: runs the threads of a kernel launch on this CPU, block after block, each thread on a
// fiber. It gives the kernels of this folder a device where there is none: every conformance and
// engine test runs on it, in CI too. What it shows is arithmetic, indexing, barriers and lanes that
// part where they must not; it says nothing about speed, and a missing barrier shows only where
// the order of threads decides (Order::kReversed and kShuffled are there for that).
//
// Stricter than a device where that finds mistakes: shared memory starts as NaN, asynchronous
// copies land only when they are waited for, all lanes of a warp must come to the same collective,
// and a barrier that some threads never reach ends the process with a message.
//
// One launch at a time in a process; other system threads wait.
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

// Order in which the runnable threads of a block are taken, and the blocks of a launch.
enum class Order : uint8_t { kForward, kReversed, kShuffled };
// For launches from now on, of all system threads. The first value is KVGATE_CUDA_EMULATOR_ORDER's:
// forward (also when unset), reversed or shuffled.
void SetOrder(Order order);

// Runs `body` once for each thread. A block has at most 1024 threads, whole warps, in x only.
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

// One lane's part in what a warp does together. `operation` names it: all 32 lanes must come with
// the same one. The last to come calls run(lanes), lanes[i] being lane i's operands.
using CollectiveRun = void (*)(void* const* lanes);
void Collective(const char* operation, void* operands, CollectiveRun run);

// An asynchronous copy of this thread to shared memory: `bytes` of `from`, then zeros to the end of
// `to_bytes`. Nothing is copied before a wait asks for its group.
void CopyLater(void* to, size_t to_bytes, const void* from, size_t bytes);
void CopyCommit();
void CopyWait(int groups_left);  // the newest so many groups may still be under way

// One lane's part in what a warp does in the background: `run` gets a copy of each lane's operands,
// of `bytes`, when the lanes wait for its group and not before. Lanes come to the same ones, as to
// a Collective. What was not waited for when a thread ends, ends the process.
void WorkLater(CollectiveRun run, const void* operands, size_t bytes);
void WorkCommit();
void WorkWait(int groups_left);

// Devices may add the 16 products of a WarpgroupMma otherwise than those of an Mma; the emulator
// does after SetWarpgroupsRound(true): it rounds after each.
void SetWarpgroupsRound(bool do_round);
bool WarpgroupsRound();

}  // namespace kvgate::kernels::cuda::emulator
