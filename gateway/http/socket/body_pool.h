// BodyPool: the memory of request bodies, used again by the next ones. Fresh memory of some hundred
// KiB costs more than reading the bytes into it: the kernel has to clear every page.
#pragma once

#include <cstddef>
#include <string>

namespace kvgate::http {

// Empty, with the capacity of a body that is no longer needed, if this thread has one.
std::string TakeBody();
// Keeps its memory for this thread's next bodies: 8 MiB at most, of bodies up to 4 MiB.
void ReturnBody(std::string&& body);

}  // namespace kvgate::http
