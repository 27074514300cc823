// ReadAhead: asks the kernel for the bytes of a model's tensors in the order in which they will be
// used, from a thread of its own. So a cold disk reads while weights are hashed and packed, and
// loading takes the longer of the two instead of their sum. Knows nothing of tensors.
#pragma once

#include <cstddef>
#include <span>
#include <thread>
#include <vector>

namespace kvgate::model {

class ReadAhead {
 public:
  // The runs lie in file mappings that outlive this object.
  explicit ReadAhead(std::vector<std::span<const std::byte>> runs);

 private:
  // Last, so that it ends before what it reads does; its destructor stops and joins it.
  std::vector<std::span<const std::byte>> runs_;
  std::jthread thread_;
};

}  // namespace kvgate::model
