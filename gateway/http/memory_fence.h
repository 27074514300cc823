// What has to happen though there is no memory: on threads that have nobody to tell. An exception
// that leaves one of them ends the process.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <string_view>
#include <thread>
#include <utility>

#include <kvgate/log.h>
#include <kvgate/result.h>

#include "engine/engine.h"

namespace kvgate::http {

// "request 17: std::bad_alloc"; nothing where there is no memory for that.
inline void LogFailure(std::string_view whose, const std::exception& failure) noexcept {
  try {
    KVGATE_LOG(kError, "http", "{}: {}", whose, failure.what());
  } catch (const std::exception&) {
  }
}

// Where there is no memory for `work`, `outcome` says so: whoever waits would try it again for
// ever.
inline std::function<void()> Fenced(std::function<void()> work,
                                    std::shared_ptr<Result<void>> outcome) {
  return [work = std::move(work), outcome = std::move(outcome)] {
    try {
      work();
    } catch (const std::bad_alloc&) {
      *outcome = engine::OutOfMemory();
    }
  };
}

// What must not be lost is tried again until there is memory for it. Not on a loop.
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

}  // namespace kvgate::http
