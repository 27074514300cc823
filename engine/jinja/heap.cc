#include "engine/jinja/heap.h"

namespace kvgate::jinja {
namespace {
constexpr size_t kBlockBytes = size_t{64} << 10;
}  // namespace

void* Heap::AllocateBlock(size_t bytes) {
  // What is large gets a block of its own, and the current one goes on.
  if (bytes > kBlockBytes / 4) {
    blocks_.emplace_back(new std::byte[bytes]);
    return blocks_.back().get();
  }
  blocks_.emplace_back(new std::byte[kBlockBytes]);
  next_ = blocks_.back().get() + bytes;
  left_ = kBlockBytes - bytes;
  return blocks_.back().get();
}

}  // namespace kvgate::jinja
