// ReadBuffers: the memory that answers are read into, used again by the next ones. Each of them
// would ask for 16 KiB else, where the allocator's quick ways end at 1 KiB.
#pragma once

#include <boost/beast/core/flat_buffer.hpp>

namespace kvgate::upstream {

// Empty, with the memory of an earlier answer's if this thread has one.
boost::beast::flat_buffer TakeReadBuffer();
// Keeps its memory for this thread's next answers: at most 64 buffers of at most 80 KiB.
void ReturnReadBuffer(boost::beast::flat_buffer&& buffer);

}  // namespace kvgate::upstream
