// WeightMemory: where weights lie. Many are smaller than a huge page or end inside one, and on
// small pages a core that streams them waits for address translation (a fifth of decoding in a
// virtual machine). So they share mappings, one after the other.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <kvgate/result.h>

#include "kernels/cpu/host_memory.h"

namespace kvgate::kernels::cpu {

// Part of a mapping, which lives as long as a part of it does. Zero-filled at first, aligned.
struct WeightSlice {
  std::shared_ptr<const HostMemory> mapping;
  std::byte* data = nullptr;
  size_t size = 0;
};

// Not for two threads at once.
class WeightMemory {
 public:
  // Pages of a mapping that nobody has written are not backed.
  static constexpr size_t kMappingBytes = size_t{16} << 20;
  // What is larger has a mapping of its own, of which a small part at most is on small pages.
  static constexpr size_t kSharedBytesMax = size_t{8} << 20;

  // As HostMemory::Allocate.
  Result<WeightSlice> Allocate(size_t bytes, const std::string& purpose);

 private:
  std::shared_ptr<const HostMemory> mapping_;
  size_t used_ = 0;
};

}  // namespace kvgate::kernels::cpu
