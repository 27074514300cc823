#include "kernels/cuda/memory/kv_copies.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/device/device_error.h"

namespace kvgate::kernels::cuda::memory {

using device::CheckDevice;

namespace {

bool HasHappened(cudaEvent_t event) {
  const cudaError_t state = cudaEventQuery(event);
  if (state == cudaSuccess) return true;
  if (state != cudaErrorNotReady) CheckDevice(state, "ask for a copy of KV blocks");
  cudaGetLastError();  // clears cudaErrorNotReady, which is not an error
  return false;
}

// Returns true if two sorted lists have a common element.
bool Share(std::span<const std::byte* const> a, std::span<const std::byte* const> b) {
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    if (*i == *j) return true;
    *i < *j ? ++i : ++j;
  }
  return false;
}

}  // namespace

KvCopies::KvCopies(int device) : device_(device) {
  CheckDevice(cudaEventCreateWithFlags(&order_, cudaEventDisableTiming), "make an event");
  for (Lane& lane : lanes_) {
    CheckDevice(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking), "make a stream");
  }
}

KvCopies::~KvCopies() {
  for (Lane& lane : lanes_) {
    cudaStreamSynchronize(lane.stream);
    for (const Batch& batch : lane.batches) cudaEventDestroy(batch.is_copied);
    cudaStreamDestroy(lane.stream);
  }
  for (const cudaEvent_t event : free_events_) cudaEventDestroy(event);
  cudaEventDestroy(order_);
}

cudaEvent_t KvCopies::TakeEvent() {
  cudaEvent_t event = nullptr;
  if (free_events_.empty()) {
    CheckDevice(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "make an event");
  } else {
    event = free_events_.back();
    free_events_.pop_back();
  }
  return event;
}

void KvCopies::ForgetDone() {
  for (Lane& lane : lanes_) {
    while (!lane.batches.empty() && HasHappened(lane.batches.front().is_copied)) {
      free_events_.push_back(lane.batches.front().is_copied);
      lane.batches.pop_front();
    }
  }
}

const KvCopies::Batch* KvCopies::Find(uint64_t ticket) const {
  for (const Lane& lane : lanes_) {
    for (const Batch& batch : lane.batches) {
      if (batch.ticket == ticket) return &batch;
    }
  }
  return nullptr;
}

uint64_t KvCopies::Begin(Direction direction, const KvArena& arena,
                         std::span<const KvBlockCopy> copies, cudaStream_t stream) {
  if (copies.empty()) return 0;
  const bool to_host = direction == Direction::kToHost;
  const std::lock_guard lock(mutex_);
  ForgetDone();
  Batch batch{.ticket = ++last_ticket_, .is_copied = TakeEvent(), .memory = {}};
  for (const KvBlockCopy& copy : copies) {
    batch.memory.push_back(arena.block(copy.block));
    batch.memory.push_back(copy.host);
  }
  std::ranges::sort(batch.memory);
  Lane& lane = lanes_[to_host ? 0 : 1];
  CheckDevice(cudaEventRecord(order_, stream), "order copies of KV blocks");
  CheckDevice(cudaStreamWaitEvent(lane.stream, order_, 0), "order copies of KV blocks");
  // Batches of the same direction are ordered by their stream; of the other direction, waiting for
  // the last one that shares memory suffices.
  const std::deque<Batch>& others = lanes_[to_host ? 1 : 0].batches;
  for (auto other = others.rbegin(); other != others.rend(); ++other) {
    if (!Share(batch.memory, other->memory)) continue;
    CheckDevice(cudaStreamWaitEvent(lane.stream, other->is_copied, 0), "order copies of KV blocks");
    break;
  }
  for (const KvBlockCopy& copy : copies) {
    // A copy that writes the block received its arena as non-const, so the cast is safe.
    auto* const block = const_cast<std::byte*>(arena.block(copy.block));
    CheckDevice(to_host ? cudaMemcpyAsync(copy.host, block, arena.block_bytes(),
                                          cudaMemcpyDeviceToHost, lane.stream)
                        : cudaMemcpyAsync(block, copy.host, arena.block_bytes(),
                                          cudaMemcpyHostToDevice, lane.stream),
                "copy KV blocks");
  }
  CheckDevice(cudaEventRecord(batch.is_copied, lane.stream), "copy KV blocks");
  lane.batches.push_back(std::move(batch));
  return last_ticket_;
}

bool KvCopies::IsCopied(uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  const Batch* const batch = Find(ticket);
  return batch == nullptr || HasHappened(batch->is_copied);
}

// The event may be reused for a later batch before it is waited for; then the wait is only longer.
void KvCopies::Wait(uint64_t ticket) {
  cudaEvent_t event = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const Batch* const batch = Find(ticket);
    if (batch == nullptr) return;
    event = batch->is_copied;
  }
  CheckDevice(cudaEventSynchronize(event), "wait for a copy of KV blocks");
}

void KvCopies::AwaitBlock(const std::byte* block) {
  std::vector<cudaEvent_t> events;
  {
    const std::lock_guard lock(mutex_);
    for (const Lane& lane : lanes_) {
      for (const Batch& batch : lane.batches) {
        if (std::ranges::binary_search(batch.memory, block)) events.push_back(batch.is_copied);
      }
    }
  }
  if (events.empty()) return;
  CheckDevice(cudaSetDevice(device_), "choose the device");  // a new thread starts with device 0
  for (const cudaEvent_t event : events) {
    CheckDevice(cudaEventSynchronize(event), "wait for a copy of KV blocks");
  }
}

}  // namespace kvgate::kernels::cuda::memory
