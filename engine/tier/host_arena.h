// HostArena: the memory of a host tier, in slots of one KV block.
//
// If KV blocks are host memory themselves, the arena is mapped at once and its pages are allocated
// on first write. For a device it is page-locked, which takes a second for a few gigabytes: the
// first piece is ready when Open returns and a separate thread locks the others, so that the start
// does not wait for hundreds of gigabytes. Slots from num_ready() on must not be touched yet.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/result.h"
#include "kernels/backend.h"

namespace kvgate::tier {

class HostArena {
 public:
  // Bytes locked at a time; one lock holds up other calls to the device for some 20 ms.
  static constexpr size_t kPieceBytes = size_t{64} << 20;

  // Fails with kOverloaded (field "host_memory") if the system refuses the memory or to lock the
  // first piece. The backend must outlive the arena. REQUIRES: num_slots > 0.
  static Result<std::unique_ptr<HostArena>> Open(uint32_t num_slots, size_t slot_bytes,
                                                 kernels::Backend& backend,
                                                 size_t piece_bytes = kPieceBytes);
  ~HostArena();

  uint32_t num_slots() const { return num_slots_; }
  // Number of leading slots that may be used. Rises up to num_slots, unless locking fails before.
  uint32_t num_ready() const { return num_ready_.load(std::memory_order_acquire); }
  // True if the system refused to lock more; num_ready() rises no further.
  bool is_cut() const { return is_cut_.load(std::memory_order_acquire); }
  // REQUIRES: slot < num_ready().
  std::byte* slot(uint32_t slot) const {
    return pieces_[slot / slots_per_piece_] + size_t{slot % slots_per_piece_} * slot_bytes_;
  }

 private:
  struct Unmap {
    size_t bytes;
    void operator()(std::byte* memory) const;
  };

  HostArena(uint32_t num_slots, size_t slot_bytes, uint32_t slots_per_piece,
            kernels::Backend& backend);
  Result<void> LockPiece(size_t piece);
  void LockRest();

  const uint32_t num_slots_;
  const size_t slot_bytes_;
  const uint32_t slots_per_piece_;
  kernels::Backend& backend_;
  std::unique_ptr<std::byte, Unmap> mapped_;                   // if KV blocks are host memory
  std::vector<std::unique_ptr<kernels::HostBuffer>> buffers_;  // else: by piece
  std::vector<std::byte*> pieces_;  // written before num_ready_ is raised
  std::atomic<uint32_t> num_ready_ = 0;
  std::atomic<bool> is_cut_ = false;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace kvgate::tier
