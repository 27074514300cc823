#include "engine/tier/host_arena.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/memory_fence.h"

namespace kvgate::tier {

void HostArena::Unmap::operator()(std::byte* memory) const { munmap(memory, bytes); }

HostArena::HostArena(uint32_t num_slots, size_t slot_bytes, uint32_t slots_per_piece,
                     kernels::Backend& backend)
    : num_slots_(num_slots),
      slot_bytes_(slot_bytes),
      slots_per_piece_(slots_per_piece),
      backend_(backend),
      mapped_(nullptr, Unmap{0}) {}

Result<std::unique_ptr<HostArena>> HostArena::Open(uint32_t num_slots, size_t slot_bytes,
                                                   kernels::Backend& backend, size_t piece_bytes) {
  const bool is_mapped = backend.Info().kv_host_visible;
  const auto per_piece = static_cast<uint32_t>(
      is_mapped ? num_slots : std::clamp<size_t>(piece_bytes / slot_bytes, 1, num_slots));
  std::unique_ptr<HostArena> arena(new HostArena(num_slots, slot_bytes, per_piece, backend));
  const uint32_t num_pieces = (num_slots + per_piece - 1) / per_piece;
  arena->pieces_.resize(num_pieces);
  if (is_mapped) {
    const size_t bytes = num_slots * slot_bytes;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      return MakeError(ErrorCode::kOverloaded, "tier.host",
                       fmt::format("the system does not give {} bytes for the host arena", bytes),
                       "host_memory");
    }
    arena->mapped_ = {static_cast<std::byte*>(memory), Unmap{bytes}};
    arena->pieces_[0] = arena->mapped_.get();
    arena->num_ready_ = num_slots;
    return arena;
  }
  arena->buffers_.resize(num_pieces);
  if (Result<void> locked = arena->LockPiece(0); !locked) {
    locked.error().field = "host_memory";
    return tl::make_unexpected(std::move(locked.error()));
  }
  if (num_pieces > 1) {
    arena->thread_ = std::thread([self = arena.get()] {
      (void)Attempt("tier", "locking host memory", [self] { self->LockRest(); });
    });
    pthread_setname_np(arena->thread_.native_handle(), "kvgate-lock");
  }
  return arena;
}

HostArena::~HostArena() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

Result<void> HostArena::LockPiece(size_t piece) {
  const auto first = static_cast<uint32_t>(piece) * slots_per_piece_;
  const uint32_t count = std::min(slots_per_piece_, num_slots_ - first);
  KVGATE_TRY(buffers_[piece], backend_.AllocateHost(count * slot_bytes_));
  pieces_[piece] = buffers_[piece]->data();
  num_ready_.store(first + count, std::memory_order_release);
  return {};
}

void HostArena::LockRest() {
  for (size_t piece = 1; piece < pieces_.size() && !stopping_; ++piece) {
    const Result<void> locked = LockPiece(piece);
    if (locked) continue;
    is_cut_.store(true, std::memory_order_release);
    KVGATE_LOG(kWarning, "tier",
               "the host arena stays at {} of {} bytes: {}. Set cache.host_memory lower, or let "
               "this process lock more (ulimit -l)",
               num_ready() * slot_bytes_, num_slots_ * slot_bytes_, locked.error().detail);
    return;
  }
}

}  // namespace kvgate::tier
