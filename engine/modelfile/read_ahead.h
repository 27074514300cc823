// ReadAhead: asks the kernel for the bytes of a model's tensors in the order of their use, from its
// own thread. So a cold disk reads while weights are hashed and packed, and loading takes the
// longer of the two times instead of their sum. It knows no tensors.
#pragma once

#include <cstddef>
#include <span>
#include <thread>
#include <vector>

namespace kvgate::modelfile {

class ReadAhead {
 public:
  // The runs lie in file mappings, which must outlive this object.
  explicit ReadAhead(std::vector<std::span<const std::byte>> runs);

 private:
  // The thread is declared last, so that its destructor stops and joins it before runs_ is
  // destroyed.
  std::vector<std::span<const std::byte>> runs_;
  std::jthread thread_;
};

}  // namespace kvgate::modelfile
