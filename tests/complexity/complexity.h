// Tests how cost grows with input: the time and memory to read any request, stream or file must
// grow no faster than n log n. Inputs come from generators and are doubled; growth by more than
// kGrowthMax per doubling, on average over several, is a fault. Time is the thread's CPU time, so a
// busy machine causes no fault; memory is counted in operator new, so it is exact.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <functional>
#include <string>

namespace kvgate::complexity {

// The limit per doubling: n log n grows by 2.2, n squared by 4.
inline constexpr double kGrowthMax = 3.0;
// Costs below these count as these, because they occur however small the input is.
inline constexpr double kSecondsFloor = 0.004;
inline constexpr double kBytesFloor = 1 << 20;

// The bytes from operator new that are currently held, and their maximum.
struct Memory {
  size_t bytes = 0;
  size_t bytes_peak = 0;
};
Memory& ThreadMemory();

struct Cost {
  double seconds = 0;
  double bytes = 0;
};

inline double ThreadSeconds() {
  std::timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

inline Cost Measure(const std::function<void()>& work) {
  Memory& memory = ThreadMemory();
  const size_t before = memory.bytes;
  memory.bytes_peak = before;
  const double began = ThreadSeconds();
  work();
  return {.seconds = ThreadSeconds() - began,
          .bytes = static_cast<double>(memory.bytes_peak - before)};
}

struct Growth {
  std::string name;
  size_t begin = 0;       // the size of the first input, in the unit of `prepare`
  int num_doublings = 4;  // the last input is begin * 2^num_doublings
};

// `prepare` makes an input of the given size and returns the work to be measured.
inline void ExpectGrowsLinearly(const Growth& growth,
                                const std::function<std::function<void()>(size_t)>& prepare) {
  const auto measure = [&](size_t size) {
    const std::function<void()> work = prepare(size);
    Cost best = Measure(work);
    // The work runs twice, because a disturbance by other processes is likely in one run only.
    const Cost again = Measure(work);
    best.seconds = std::min(best.seconds, again.seconds);
    best.bytes = std::min(best.bytes, again.bytes);
    return best;
  };
  const Cost first = measure(growth.begin);
  const Cost last = measure(growth.begin << growth.num_doublings);
  const double allowed = std::pow(kGrowthMax, growth.num_doublings);
  EXPECT_LE(last.seconds, std::max(first.seconds, kSecondsFloor) * allowed)
      << growth.name << ": " << first.seconds * 1e3 << " ms of " << growth.begin << ", "
      << last.seconds * 1e3 << " ms of " << (growth.begin << growth.num_doublings);
  EXPECT_LE(last.bytes, std::max(first.bytes, kBytesFloor) * allowed)
      << growth.name << ": " << first.bytes / 1024 << " KiB of " << growth.begin << ", "
      << last.bytes / 1024 << " KiB of " << (growth.begin << growth.num_doublings);
}

}  // namespace kvgate::complexity
