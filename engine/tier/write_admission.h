// WriteAdmission: limits how much KV is written to the disk, and decides what goes first when the
// budget runs short.
//
// A disk wears out by being written, and most KV is never requested again. The budget is a token
// bucket in bytes that fills evenly over the day and holds a quarter of the daily budget, but at
// least one request. Above half, everything is admitted; below, only worthy blocks that fit; when
// it is empty, only pinned ones, whose bytes become a debt. It knows no blocks and no disk.
// Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>

namespace kvgate::tier {

enum class WritePriority : uint8_t {
  kCommon,  // no sign that it will be requested again
  kWorthy,  // hit for the second time, part of a shared prefix, or preempted
  kPinned,
};

struct WriteAdmissionStats {
  uint64_t budget_bytes_per_day = 0;  // 0 means no limit
  int64_t left_bytes = 0;             // negative: a debt
  uint64_t spent_bytes = 0;           // in the current 24-hour period
  uint64_t refused_bytes = 0;         // since the start
};

// The state that is persisted.
struct WriteAdmissionState {
  int64_t left_bytes = 0;
  uint64_t spent_bytes = 0;
  int64_t day_seconds = 0;  // elapsed in the current 24-hour period
  friend bool operator==(const WriteAdmissionState&, const WriteAdmissionState&) = default;
};

class WriteAdmission {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    uint64_t bytes_per_day = 0;  // 0 admits everything, but still counts it
    // The least capacity of the bucket, enough for one request.
    uint64_t burst_bytes_min = uint64_t{1} << 30;
    std::function<Clock::time_point()> now = [] { return Clock::now(); };
  };
  // The bucket starts full.
  explicit WriteAdmission(Options options);

  // Returns true if `bytes` may be written, and then counts them as written.
  [[nodiscard]] bool Admit(uint64_t bytes, WritePriority priority);

  // Takes back `bytes` that were admitted and then not written.
  void GiveBack(uint64_t bytes);

  WriteAdmissionStats stats();
  WriteAdmissionState state();
  // Continues the state of an earlier process after `away`, which counts as 0 to 24 hours, so that
  // a clock change in between does no harm.
  void Restore(const WriteAdmissionState& state, std::chrono::seconds away);

 private:
  void Refill();  // REQUIRES: mutex_ held
  void Add(double seconds);

  const Options options_;
  const double burst_bytes_;
  std::mutex mutex_;
  Clock::time_point last_;
  double left_bytes_;
  double day_seconds_ = 0;
  uint64_t spent_bytes_ = 0;
  uint64_t refused_bytes_ = 0;
};

}  // namespace kvgate::tier
