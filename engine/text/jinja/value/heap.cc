#include "engine/text/jinja/value/heap.h"

namespace kvgate::jinja::value {
namespace {
constexpr size_t kBlockBytes = size_t{64} << 10;
}  // namespace

void* Heap::AllocateBlock(size_t bytes) {
  // A large object gets a block of its own, and the current block stays in use.
  if (bytes > kBlockBytes / 4) {
    blocks_.emplace_back(new std::byte[bytes]);
    return blocks_.back().get();
  }
  blocks_.emplace_back(new std::byte[kBlockBytes]);
  next_ = blocks_.back().get() + bytes;
  left_ = kBlockBytes - bytes;
  return blocks_.back().get();
}

}  // namespace kvgate::jinja::value
