// WeightMemory: the memory of weights. Many weights are smaller than a huge page or end inside one,
// and a core that streams from small pages waits for address translation (a fifth of decoding time
// in a virtual machine). Therefore weights share mappings, one after the other.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/result.h"
#include "kernels/cpu/machine/host_memory.h"

namespace kvgate::kernels::cpu::machine {

// Part of a mapping, which lives as long as any of its parts. Initially zero-filled; aligned.
struct WeightSlice {
  std::shared_ptr<const HostMemory> mapping;
  std::byte* data = nullptr;
  size_t size = 0;
};

// Not thread-safe.
class WeightMemory {
 public:
  // Pages of a mapping that nobody has written use no memory.
  static constexpr size_t kMappingBytes = size_t{16} << 20;
  // Larger weights get a mapping of their own, of which only a small part is on small pages.
  static constexpr size_t kSharedBytesMax = size_t{8} << 20;

  // Errors as for HostMemory::Allocate.
  Result<WeightSlice> Allocate(size_t bytes, const std::string& purpose);

 private:
  std::shared_ptr<const HostMemory> mapping_;
  size_t used_ = 0;
};

}  // namespace kvgate::kernels::cpu::machine
