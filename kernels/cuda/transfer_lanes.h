// TransferLanes: bytes between device memory and the host beside the steps, from any thread. Each
// call borrows a stream of its own from a few, so that moves of several threads, both ways, run at
// once and do not wait for a step that is under way.
//
// Host memory that AllocateHost gave is copied to and from directly; other memory through a lane's
// two page-locked pieces, one being copied while the other is read or written.
#pragma once

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <kvgate/result.h>

#include "kernels/backend.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/runtime.h"

namespace kvgate::kernels::cuda {

class TransferLanes {
 public:
  // kOverloaded: the system does not lock the pieces' memory.
  static Result<std::unique_ptr<TransferLanes>> Open(int device);
  ~TransferLanes();
  TransferLanes(const TransferLanes&) = delete;
  TransferLanes& operator=(const TransferLanes&) = delete;

  // Return when the copy is complete. REQUIRES: what wrote the bytes, or reads those that are
  // overwritten, has run, or was given to the device before an OrderAfter.
  void Read(const std::byte* device, std::span<std::byte> host);
  void Write(std::byte* device, std::span<const std::byte> host);
  // Copies from now on begin after what `stream` was given so far.
  void OrderAfter(cudaStream_t stream);

  // As Backend::AllocateHost; the buffer may outlive this.
  Result<std::unique_ptr<HostBuffer>> AllocateHost(size_t bytes);

 private:
  static constexpr int kNumLanes = 4;
  static constexpr size_t kPieceBytes = size_t{2} << 20;

  struct Lane {
    cudaStream_t stream = nullptr;
    PinnedMemory pieces;                     // two
    std::array<cudaEvent_t, 2> is_copied{};  // of each
  };
  class BorrowedLane;
  class PinnedRanges;
  class PinnedBuffer;

  explicit TransferLanes(int device);
  static void ReadThrough(Lane& lane, const std::byte* device, std::span<std::byte> host);
  static void WriteThrough(Lane& lane, std::byte* device, std::span<const std::byte> host);

  const int device_;
  std::array<Lane, kNumLanes> lanes_;
  cudaEvent_t order_ = nullptr;
  const std::shared_ptr<PinnedRanges> ranges_;
  std::mutex mutex_;
  std::condition_variable lane_is_free_;
  std::vector<Lane*> free_lanes_;
};

}  // namespace kvgate::kernels::cuda
