// What has to happen though there is no memory, on threads that have nobody to tell: an exception
// that leaves one of them ends the process.
#pragma once

#include <chrono>
#include <exception>
#include <new>
#include <string_view>
#include <thread>

#include <kvgate/log.h>

namespace kvgate {

// "request 17: std::bad_alloc"; nothing where there is no memory for that.
inline void LogFailure(const char* source, std::string_view what, std::string_view whose,
                       const std::exception& failure) noexcept {
  try {
    KVGATE_LOG(kError, source, "{}{}: {}", what, whose, failure.what());
  } catch (const std::exception&) {
  }
}

// Calls `work`, which changes nothing where it throws std::bad_alloc, until there is memory for it.
// Not on a loop: it sleeps in between.
template <typename Work>
void Insist(const Work& work) {
  constexpr std::chrono::milliseconds kInterval{20};
  while (true) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(kInterval);
    }
  }
}

}  // namespace kvgate
