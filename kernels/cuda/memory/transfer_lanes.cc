#include "kernels/cuda/memory/transfer_lanes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cuda/device/device_error.h"

namespace kvgate::kernels::cuda::memory {

using device::CheckDevice;

// The page-locked memory from AllocateHost that still exists; shared with the buffers.
class TransferLanes::PinnedRanges {
 public:
  void Add(std::span<const std::byte> range) {
    const std::lock_guard lock(mutex_);
    ranges_.push_back(range);
  }
  void Remove(const std::byte* begin) {
    const std::lock_guard lock(mutex_);
    std::erase_if(ranges_, [=](const auto& range) { return range.data() == begin; });
  }
  bool Contain(std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(ranges_, [&](const auto& range) {
      return bytes.data() >= range.data() &&
             bytes.data() + bytes.size() <= range.data() + range.size();
    });
  }

 private:
  std::mutex mutex_;
  std::vector<std::span<const std::byte>> ranges_;
};

class TransferLanes::PinnedBuffer final : public HostBuffer {
 public:
  PinnedBuffer(PinnedMemory memory, std::shared_ptr<PinnedRanges> ranges)
      : memory_(std::move(memory)), ranges_(std::move(ranges)) {
    data_ = memory_.data();
    size_ = memory_.size();
    ranges_->Add({data_, size_});
  }
  ~PinnedBuffer() override { ranges_->Remove(data_); }

 private:
  PinnedMemory memory_;
  std::shared_ptr<PinnedRanges> ranges_;
};

// Borrows a lane for the duration of one call, and waits until one is free.
class TransferLanes::BorrowedLane {
 public:
  explicit BorrowedLane(TransferLanes& owner) : owner_(owner) {
    // A new thread's current device is device 0.
    CheckDevice(cudaSetDevice(owner.device_), "choose the device");
    std::unique_lock lock(owner.mutex_);
    owner.lane_is_free_.wait(lock, [&] { return !owner.free_lanes_.empty(); });
    lane_ = owner.free_lanes_.back();
    owner.free_lanes_.pop_back();
  }
  ~BorrowedLane() {
    {
      const std::lock_guard lock(owner_.mutex_);
      owner_.free_lanes_.push_back(lane_);
    }
    owner_.lane_is_free_.notify_one();
  }
  BorrowedLane(const BorrowedLane&) = delete;
  BorrowedLane& operator=(const BorrowedLane&) = delete;

  Lane& operator*() const { return *lane_; }

 private:
  TransferLanes& owner_;
  Lane* lane_ = nullptr;
};

TransferLanes::TransferLanes(int device)
    : device_(device), ranges_(std::make_shared<PinnedRanges>()) {}

Result<std::unique_ptr<TransferLanes>> TransferLanes::Open(int device) {
  std::unique_ptr<TransferLanes> made(new TransferLanes(device));
  CheckDevice(cudaEventCreateWithFlags(&made->order_, cudaEventDisableTiming), "make an event");
  for (Lane& lane : made->lanes_) {
    KVGATE_TRY(lane.pieces, PinnedMemory::Allocate(2 * kPieceBytes, "moves of KV blocks"));
    CheckDevice(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking), "make a stream");
    for (cudaEvent_t& event : lane.is_copied) {
      CheckDevice(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "make an event");
    }
    made->free_lanes_.push_back(&lane);
  }
  return made;
}

TransferLanes::~TransferLanes() {
  for (const Lane& lane : lanes_) {
    for (const cudaEvent_t event : lane.is_copied) {
      if (event != nullptr) cudaEventDestroy(event);
    }
    if (lane.stream != nullptr) cudaStreamDestroy(lane.stream);
  }
  if (order_ != nullptr) cudaEventDestroy(order_);
}

void TransferLanes::OrderAfter(cudaStream_t stream) {
  CheckDevice(cudaEventRecord(order_, stream), "note a change of KV blocks");
}

void TransferLanes::Read(const std::byte* device, std::span<std::byte> host) {
  const BorrowedLane borrowed(*this);
  Lane& lane = *borrowed;
  CheckDevice(cudaStreamWaitEvent(lane.stream, order_, 0), "order a copy");
  if (!ranges_->Contain(host)) return ReadThrough(lane, device, host);
  CheckDevice(
      cudaMemcpyAsync(host.data(), device, host.size(), cudaMemcpyDeviceToHost, lane.stream),
      "copy to the host");
  CheckDevice(cudaStreamSynchronize(lane.stream), "copy to the host");
}

void TransferLanes::Write(std::byte* device, std::span<const std::byte> host) {
  const BorrowedLane borrowed(*this);
  Lane& lane = *borrowed;
  CheckDevice(cudaStreamWaitEvent(lane.stream, order_, 0), "order a copy");
  if (!ranges_->Contain(host)) return WriteThrough(lane, device, host);
  CheckDevice(
      cudaMemcpyAsync(device, host.data(), host.size(), cudaMemcpyHostToDevice, lane.stream),
      "copy to the device");
  CheckDevice(cudaStreamSynchronize(lane.stream), "copy to the device");
}

void TransferLanes::ReadThrough(Lane& lane, const std::byte* device, std::span<std::byte> host) {
  size_t num_issued = 0;
  for (size_t begin = 0; begin < host.size(); begin += kPieceBytes) {
    while (num_issued < host.size() && num_issued < begin + 2 * kPieceBytes) {
      const size_t half = num_issued / kPieceBytes % 2;
      const size_t bytes = std::min(kPieceBytes, host.size() - num_issued);
      CheckDevice(cudaMemcpyAsync(lane.pieces.data() + half * kPieceBytes, device + num_issued,
                                  bytes, cudaMemcpyDeviceToHost, lane.stream),
                  "copy to the host");
      CheckDevice(cudaEventRecord(lane.is_copied[half], lane.stream), "copy to the host");
      num_issued += bytes;
    }
    const size_t half = begin / kPieceBytes % 2;
    CheckDevice(cudaEventSynchronize(lane.is_copied[half]), "copy to the host");
    std::memcpy(host.data() + begin, lane.pieces.data() + half * kPieceBytes,
                std::min(kPieceBytes, host.size() - begin));
  }
}

void TransferLanes::WriteThrough(Lane& lane, std::byte* device, std::span<const std::byte> host) {
  for (size_t begin = 0; begin < host.size(); begin += kPieceBytes) {
    const size_t half = begin / kPieceBytes % 2;
    const size_t bytes = std::min(kPieceBytes, host.size() - begin);
    std::byte* piece = lane.pieces.data() + half * kPieceBytes;
    // Waits for the previous copy from this half. An event that was never recorded counts as
    // complete.
    CheckDevice(cudaEventSynchronize(lane.is_copied[half]), "copy to the device");
    std::memcpy(piece, host.data() + begin, bytes);
    CheckDevice(cudaMemcpyAsync(device + begin, piece, bytes, cudaMemcpyHostToDevice, lane.stream),
                "copy to the device");
    CheckDevice(cudaEventRecord(lane.is_copied[half], lane.stream), "copy to the device");
  }
  CheckDevice(cudaStreamSynchronize(lane.stream), "copy to the device");
}

Result<std::unique_ptr<HostBuffer>> TransferLanes::AllocateHost(size_t bytes) {
  CheckDevice(cudaSetDevice(device_), "choose the device");
  KVGATE_TRY(PinnedMemory memory, PinnedMemory::Allocate(bytes, "host buffer"));
  return std::unique_ptr<HostBuffer>(std::make_unique<PinnedBuffer>(std::move(memory), ranges_));
}

}  // namespace kvgate::kernels::cuda::memory
