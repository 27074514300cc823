// HostKvArena: KV blocks in host memory.
//
// A page fault during a restore costs more than the copy it interrupts, and populating gigabytes at
// startup would delay it by seconds. Therefore the first blocks are populated at once and the rest
// by an idle-priority thread while the process already serves.
#pragma once

#include <stop_token>
#include <thread>

#include "kernels/backend.h"
#include "kernels/cpu/machine/host_memory.h"

namespace kvgate::kernels::cpu {

class HostKvArena final : public KvArena {
 public:
  // Filled with NaN if KVGATE_DEBUG is set. Returns kOverloaded if there is not enough memory.
  static Result<std::unique_ptr<KvArena>> Allocate(const KvShape& shape, uint32_t num_blocks);

 private:
  HostKvArena(const KvShape& shape, uint32_t num_blocks, machine::HostMemory memory);
  bool Back(size_t begin, size_t bytes);

  machine::HostMemory memory_;
  std::jthread backer_;  // last, so that it is joined before the memory is freed
};

}  // namespace kvgate::kernels::cpu
