#include "gateway/upstream/wire/read_buffers.h"

#include <cstddef>
#include <utility>
#include <vector>

namespace kvgate::upstream::wire {
namespace {

constexpr size_t kBuffersMax = 64;
constexpr size_t kBufferBytesMax = size_t{80} << 10;

std::vector<boost::beast::flat_buffer>& ThreadBuffers() {
  thread_local std::vector<boost::beast::flat_buffer> buffers;
  return buffers;
}

}  // namespace

boost::beast::flat_buffer TakeReadBuffer() {
  std::vector<boost::beast::flat_buffer>& buffers = ThreadBuffers();
  if (buffers.empty()) return {};
  boost::beast::flat_buffer buffer = std::move(buffers.back());
  buffers.pop_back();
  return buffer;
}

void ReturnReadBuffer(boost::beast::flat_buffer&& buffer) {
  std::vector<boost::beast::flat_buffer>& buffers = ThreadBuffers();
  const size_t bytes = buffer.capacity();
  if (bytes == 0 || bytes > kBufferBytesMax || buffers.size() == kBuffersMax) return;
  buffer.clear();
  buffers.push_back(std::move(buffer));
}

}  // namespace kvgate::upstream::wire
