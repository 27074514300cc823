// KvCopies: copies many KV blocks at a time between the device and page-locked host memory, in
// parallel with steps. It implements Backend::ReadKvBlocks and WriteKvBlocks on a device.
//
// There is one stream per direction, so that both copy engines work at once: while a prefix is
// loaded, the blocks that it replaces are written back. On the device, a batch waits only for
// batches of the other direction that share a block or host memory with it.
//
// Begin and IsCopied may be called on the issuing thread only, Wait and AwaitBlock on any thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/backend.h"
#include "kernels/cuda/device/runtime.h"

namespace kvgate::kernels::cuda::memory {

class KvCopies {
 public:
  enum class Direction : uint8_t { kToHost, kToDevice };

  explicit KvCopies(int device);
  ~KvCopies();  // waits for running copies
  KvCopies(const KvCopies&) = delete;
  KvCopies& operator=(const KvCopies&) = delete;

  // Starts copies that are executed after all commands given to `stream` so far. Returns the
  // ticket.
  uint64_t Begin(Direction direction, const KvArena& arena, std::span<const KvBlockCopy> copies,
                 cudaStream_t stream);
  bool IsCopied(uint64_t ticket);
  void Wait(uint64_t ticket);
  // Waits until no copy that was started before reads or writes the block.
  void AwaitBlock(const std::byte* block);

 private:
  struct Batch {
    uint64_t ticket = 0;
    cudaEvent_t is_copied = nullptr;
    std::vector<const std::byte*> memory;  // the blocks and their host addresses, sorted
  };
  struct Lane {
    cudaStream_t stream = nullptr;
    std::deque<Batch> batches;  // running batches, oldest first
  };

  // The following REQUIRE mutex_ held.
  cudaEvent_t TakeEvent();
  void ForgetDone();
  const Batch* Find(uint64_t ticket) const;

  const int device_;
  std::mutex mutex_;
  std::array<Lane, 2> lanes_;  // indexed by Direction
  cudaEvent_t order_ = nullptr;
  std::vector<cudaEvent_t> free_events_;
  uint64_t last_ticket_ = 0;
};

}  // namespace kvgate::kernels::cuda::memory
