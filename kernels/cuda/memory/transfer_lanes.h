// TransferLanes: copies bytes between device memory and the host in parallel with steps, from any
// thread. Each call borrows one of a few streams, so that copies of several threads, in both
// directions, run concurrently and do not wait for a running step.
//
// Host memory from AllocateHost is copied directly; other memory is copied through a lane's two
// page-locked pieces, one being transferred while the CPU reads or writes the other.
#pragma once

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/backend.h"
#include "kernels/cuda/device/runtime.h"
#include "kernels/cuda/memory/device_memory.h"

namespace kvgate::kernels::cuda::memory {

class TransferLanes {
 public:
  // Returns kOverloaded if the system refuses to lock the pieces' memory.
  static Result<std::unique_ptr<TransferLanes>> Open(int device);
  ~TransferLanes();
  TransferLanes(const TransferLanes&) = delete;
  TransferLanes& operator=(const TransferLanes&) = delete;

  // Return when the copy is complete. REQUIRES: earlier commands that write the bytes, or read
  // those that are overwritten, have run, or were given to the device before an OrderAfter.
  void Read(const std::byte* device, std::span<std::byte> host);
  void Write(std::byte* device, std::span<const std::byte> host);
  // Makes later copies start after everything that `stream` was given so far.
  void OrderAfter(cudaStream_t stream);

  // As Backend::AllocateHost; the buffer may outlive this object.
  Result<std::unique_ptr<HostBuffer>> AllocateHost(size_t bytes);

 private:
  static constexpr int kNumLanes = 4;
  static constexpr size_t kPieceBytes = size_t{2} << 20;

  struct Lane {
    cudaStream_t stream = nullptr;
    PinnedMemory pieces;                     // two pieces
    std::array<cudaEvent_t, 2> is_copied{};  // one per piece
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

}  // namespace kvgate::kernels::cuda::memory
