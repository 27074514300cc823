// Deadlines of the tests of store/remote.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace kvgate::store::remote {

inline std::chrono::steady_clock::time_point In(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}
// For what succeeds: far more than a busy machine needs.
inline constexpr std::chrono::milliseconds kLong{10'000};

// How much later than asked this machine wakes a thread now: the deadlines' own slack is beyond it.
inline std::chrono::milliseconds Lateness() {
  std::chrono::milliseconds late{};
  for (int round = 0; round < 5; ++round) {
    const auto due = In(std::chrono::milliseconds(5));
    std::this_thread::sleep_until(due);
    late = std::max(
        late, std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - due));
  }
  return late;
}

}  // namespace kvgate::store::remote
