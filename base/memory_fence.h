// Helpers for work that must be done even if memory runs out, on threads whose exceptions no caller
// would catch: an uncaught exception ends the process.
#pragma once

#include <chrono>
#include <exception>
#include <new>
#include <string_view>
#include <thread>

#include "base/log.h"

namespace kvgate {

// Logs a line such as "request 17: std::bad_alloc"; logs nothing if there is no memory for it.
inline void LogFailure(std::string_view source, std::string_view what, std::string_view whose,
                       const std::exception& failure) noexcept {
  try {
    KVGATE_LOG(kError, source, "{}{}: {}", what, whose, failure.what());
  } catch (const std::exception&) {
  }
}

// Calls `work` and returns true; if it throws, logs the exception and returns false. Threads call
// each of their tasks through it, so that they go on with the next task when there may be memory
// again.
template <typename Work>
bool Attempt(std::string_view source, std::string_view what, const Work& work) noexcept {
  try {
    work();
    return true;
  } catch (const std::exception& failure) {
    LogFailure(source, what, "", failure);
    return false;
  }
}

// Calls `work`, which must change nothing when it throws std::bad_alloc, until it succeeds. It
// sleeps in between, so it must not run on an event loop.
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
