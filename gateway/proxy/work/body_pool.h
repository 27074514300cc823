// BodyPool recycles the memory of request bodies. Fresh memory of some hundred KiB costs more than
// reading the bytes into it, because the kernel has to clear every page.
#pragma once

#include <cstddef>
#include <string>

namespace kvgate::proxy::work {

// Returns a body returned earlier, with the bytes that it holds, if this thread has one; else an
// empty string. The bytes are to be overwritten: clearing them would cost as much as reading
// others.
std::string TakeBody();
// Keeps the body's memory for this thread's next bodies: at most 8 MiB, of bodies up to 4 MiB.
void ReturnBody(std::string&& body);

}  // namespace kvgate::proxy::work
