#include "kernels/cpu/machine/weight_memory.h"

#include <utility>

namespace kvgate::kernels::cpu::machine {

Result<WeightSlice> WeightMemory::Allocate(size_t bytes, const std::string& purpose) {
  if (bytes > kSharedBytesMax) {
    KVGATE_TRY(HostMemory own, HostMemory::Allocate(bytes, purpose));
    auto mapping = std::make_shared<const HostMemory>(std::move(own));
    return WeightSlice{.mapping = mapping, .data = mapping->data(), .size = bytes};
  }
  const size_t rounded =
      (bytes + HostMemory::kAlignment - 1) / HostMemory::kAlignment * HostMemory::kAlignment;
  if (mapping_ == nullptr || mapping_->size() - used_ < rounded) {
    KVGATE_TRY(HostMemory next, HostMemory::Allocate(kMappingBytes, purpose));
    mapping_ = std::make_shared<const HostMemory>(std::move(next));
    used_ = 0;
  }
  std::byte* data = mapping_->data() + used_;
  used_ += rounded;
  return WeightSlice{.mapping = mapping_, .data = data, .size = bytes};
}

}  // namespace kvgate::kernels::cpu::machine
