// HostKvArena: KV blocks in host memory.
//
// A page fault during a restore costs more than the copy it interrupts, and backing gigabytes at
// the start would delay it by seconds: so the first blocks are backed at once and the rest by an
// idle thread while the process already serves.
#pragma once

#include <stop_token>
#include <thread>

#include "kernels/backend.h"
#include "kernels/cpu/host_memory.h"

namespace kvgate::kernels::cpu {

class HostKvArena final : public KvArena {
 public:
  // NaN-filled where KVGATE_DEBUG is set. kOverloaded when the memory is not there.
  static Result<std::unique_ptr<KvArena>> Allocate(const KvShape& shape, uint32_t num_blocks);

 private:
  HostKvArena(const KvShape& shape, uint32_t num_blocks, HostMemory memory);
  bool Back(size_t begin, size_t bytes);

  HostMemory memory_;
  std::jthread backer_;  // last: ends before the memory does
};

}  // namespace kvgate::kernels::cpu
