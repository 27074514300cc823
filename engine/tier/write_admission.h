// WriteAdmission: how much KV may be written to the disk, and which goes first when that runs
// short.
//
// A disk wears out by being written, and most KV is never asked for again. The budget is a bucket
// of bytes that fills evenly over the day, up to a quarter of it (never less than one request).
// Above half, everything is admitted; below, only what is worth it; when it is empty, only what is
// pinned, whose bytes are owed to the time after. It knows no blocks and no disk. Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>

namespace kvgate::tier {

enum class Worth : uint8_t {
  kCommon,  // nothing is known of it
  kWorthy,  // hit for the second time, a part that other requests share, or preempted
  kPinned,
};

struct WriteAdmissionStats {
  uint64_t budget_bytes_per_day = 0;  // 0: unlimited
  int64_t left_bytes = 0;             // below 0: owed
  uint64_t spent_bytes = 0;           // in the 24 hours that are running
  uint64_t refused_bytes = 0;         // since the start
};

// What outlives the process.
struct WriteAdmissionState {
  int64_t left_bytes = 0;
  uint64_t spent_bytes = 0;
  int64_t day_seconds = 0;  // of the 24 hours that are running
  friend bool operator==(const WriteAdmissionState&, const WriteAdmissionState&) = default;
};

class WriteAdmission {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    uint64_t bytes_per_day = 0;                    // 0: everything is admitted, and counted
    uint64_t burst_bytes_min = uint64_t{1} << 30;  // the bucket holds one request in any case
    std::function<Clock::time_point()> now = [] { return Clock::now(); };
  };
  // The bucket starts full.
  explicit WriteAdmission(Options options);

  // Whether `bytes` may be written; they are counted as written then.
  [[nodiscard]] bool Admit(uint64_t bytes, Worth worth);

  WriteAdmissionStats stats();
  WriteAdmissionState state();
  // Goes on from an earlier process, `away` after it. A clock that was set in between cannot do
  // harm: `away` counts as 0 to 24 hours.
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
