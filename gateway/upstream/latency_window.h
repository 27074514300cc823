// LatencyWindow keeps times of the last hour, as counts of buckets that are 9 % wide, so that
// percentiles are known within that. Not thread-safe; it takes the time from its caller.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace kvgate::upstream {

class LatencyWindow {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Percentiles {
    int64_t p50_us = 0;
    int64_t p90_us = 0;
    int64_t p99_us = 0;
  };

  void Add(std::chrono::microseconds latency, TimePoint now);
  // Returns nullopt if there is none in the hour.
  std::optional<Percentiles> At(TimePoint now) const;

 private:
  static constexpr size_t kSlots = 12;
  static constexpr std::chrono::minutes kSlotTime{5};
  static constexpr size_t kBuckets = 256;  // 8 for each power of 2 microseconds: up to 71 minutes
  struct Slot {
    int64_t number = -1;  // since the clock began
    std::array<uint32_t, kBuckets> counts = {};
  };
  static int64_t SlotAt(TimePoint now) { return now.time_since_epoch() / kSlotTime; }

  std::array<Slot, kSlots> slots_;
};

}  // namespace kvgate::upstream
