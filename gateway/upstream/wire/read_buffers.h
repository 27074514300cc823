// ReadBuffers: recycled memory for reading answers. Without it each answer would allocate 16 KiB,
// while the allocator's fast paths end at 1 KiB.
#pragma once

#include <boost/beast/core/flat_buffer.hpp>

namespace kvgate::upstream::wire {

// Returns an empty buffer, with the memory of an earlier one if this thread has any.
boost::beast::flat_buffer TakeReadBuffer();
// Keeps its memory for this thread's next answers: at most 64 buffers of at most 80 KiB.
void ReturnReadBuffer(boost::beast::flat_buffer&& buffer);

}  // namespace kvgate::upstream::wire
