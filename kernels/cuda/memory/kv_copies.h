// KvCopies: KV blocks between the device and page-locked host memory, many at a time, beside the
// steps: what Backend::ReadKvBlocks and WriteKvBlocks are on a device.
//
// One stream for each direction, so that both engines of the bus work at once: while a prefix comes
// in, what it takes the place of goes out. A batch waits on the device for the batches of the other
// direction that share a block or host memory with it, and for nothing else.
//
// Begin and IsCopied: the issuing thread. Wait and AwaitBlock: any.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <kvgate/result.h>

#include "kernels/backend.h"
#include "kernels/cuda/runtime.h"

namespace kvgate::kernels::cuda {

class KvCopies {
 public:
  enum class Direction : uint8_t { kToHost, kToDevice };

  explicit KvCopies(int device);
  ~KvCopies();  // waits for what is under way
  KvCopies(const KvCopies&) = delete;
  KvCopies& operator=(const KvCopies&) = delete;

  // After what `stream` was given so far. Returns the ticket.
  uint64_t Begin(Direction direction, const KvArena& arena, std::span<const KvBlockCopy> copies,
                 cudaStream_t stream);
  bool IsCopied(uint64_t ticket);
  void Wait(uint64_t ticket);
  // Until no copy that was begun before reads or writes the block.
  void AwaitBlock(const std::byte* block);

 private:
  struct Batch {
    uint64_t ticket = 0;
    cudaEvent_t is_copied = nullptr;
    std::vector<const std::byte*> memory;  // the blocks and their places on the host, sorted
  };
  struct Lane {
    cudaStream_t stream = nullptr;
    std::deque<Batch> batches;  // under way, the oldest first
  };

  // These REQUIRE mutex_ held.
  cudaEvent_t TakeEvent();
  void ForgetDone();
  const Batch* Find(uint64_t ticket) const;

  const int device_;
  std::mutex mutex_;
  std::array<Lane, 2> lanes_;  // by Direction
  cudaEvent_t order_ = nullptr;
  std::vector<cudaEvent_t> free_events_;
  uint64_t last_ticket_ = 0;
};

}  // namespace kvgate::kernels::cuda
