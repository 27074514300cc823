#include "kernels/cpu/host_kv_arena.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace kvgate::kernels::cpu {
namespace {

// The pool hands out its first blocks first, which a prompt restored right after the start needs.
[[maybe_unused]] constexpr size_t kBytesBackedAtOnce = size_t{256} << 20;
[[maybe_unused]] constexpr size_t kChunkBytes = size_t{4} << 20;

}  // namespace

Result<std::unique_ptr<KvArena>> HostKvArena::Allocate(const KvShape& shape, uint32_t num_blocks) {
  KVGATE_TRY(machine::HostMemory memory,
             machine::HostMemory::Allocate(shape.block_bytes() * num_blocks, "KV arena"));
  return std::unique_ptr<KvArena>(new HostKvArena(shape, num_blocks, std::move(memory)));
}

HostKvArena::HostKvArena(const KvShape& shape, uint32_t num_blocks, machine::HostMemory memory)
    : KvArena(shape, num_blocks), memory_(std::move(memory)) {
  base_ = memory_.data();
#if KVGATE_DEBUG
  std::memset(memory_.data(), 0xff, memory_.size());  // NaN in every KV dtype
#else
  const size_t now = std::min(memory_.size(), kBytesBackedAtOnce);
  if (!Back(0, now)) return;
  backer_ = std::jthread([this, now](const std::stop_token& stop) {
    // The rest of the machine's work takes precedence.
    const sched_param idle{.sched_priority = 0};
    (void)sched_setscheduler(0, SCHED_IDLE, &idle);
    size_t begin = now;
    while (begin < memory_.size() && !stop.stop_requested() && Back(begin, kChunkBytes)) {
      begin += kChunkBytes;
    }
  });
#endif
}

// Populates pages. It changes no byte, so it may run while blocks are in use. Returns false if the
// kernel does not support it (before 5.14); then pages are populated on first use.
bool HostKvArena::Back(size_t begin, size_t bytes) {
  bytes = std::min(bytes, memory_.size() - begin);
  return madvise(memory_.data() + begin, bytes, MADV_POPULATE_WRITE) == 0;
}

}  // namespace kvgate::kernels::cpu
