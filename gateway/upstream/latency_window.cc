#include "gateway/upstream/latency_window.h"

#include <algorithm>
#include <cmath>

namespace kvgate::upstream {
namespace {

constexpr double kBucketsPerOctave = 8;

size_t BucketOf(std::chrono::microseconds latency, size_t num_buckets) {
  const double us = static_cast<double>(std::max<int64_t>(latency.count(), 1));
  const double bucket = std::floor(std::log2(us) * kBucketsPerOctave);
  return std::min(static_cast<size_t>(bucket), num_buckets - 1);
}

// The middle of a bucket.
int64_t LatencyOf(size_t bucket) {
  return std::llround(std::exp2((static_cast<double>(bucket) + 0.5) / kBucketsPerOctave));
}

}  // namespace

void LatencyWindow::Add(std::chrono::microseconds latency, TimePoint now) {
  const int64_t number = SlotAt(now);
  Slot& slot = slots_[static_cast<size_t>(number) % kSlots];
  if (slot.number != number) slot = {.number = number, .counts = {}};
  ++slot.counts[BucketOf(latency, kBuckets)];
}

std::optional<LatencyWindow::Percentiles> LatencyWindow::At(TimePoint now) const {
  const int64_t number = SlotAt(now);
  std::array<uint64_t, kBuckets> counts = {};
  uint64_t total = 0;
  for (const Slot& slot : slots_) {
    if (slot.number <= number - static_cast<int64_t>(kSlots) || slot.number > number) continue;
    for (size_t i = 0; i < kBuckets; ++i) {
      counts[i] += slot.counts[i];
      total += slot.counts[i];
    }
  }
  if (total == 0) return std::nullopt;
  const auto at = [&](double share) {
    const auto rank = static_cast<uint64_t>(std::ceil(share * static_cast<double>(total)));
    uint64_t below = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
      below += counts[i];
      if (below >= rank) return LatencyOf(i);
    }
    return LatencyOf(kBuckets - 1);
  };
  return Percentiles{.p50_us = at(0.5), .p90_us = at(0.9), .p99_us = at(0.99)};
}

}  // namespace kvgate::upstream
