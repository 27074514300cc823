#include "engine/tier/write_admission.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvgate::tier {
namespace {

constexpr double kDaySeconds = 86400;
constexpr double kBurstShare = 0.25;  // of the day's budget

}  // namespace

WriteAdmission::WriteAdmission(Options options)
    : options_(std::move(options)),
      burst_bytes_(std::max(kBurstShare * static_cast<double>(options_.bytes_per_day),
                            static_cast<double>(options_.burst_bytes_min))),
      last_(options_.now()),
      left_bytes_(burst_bytes_) {}

void WriteAdmission::Refill() {
  const Clock::time_point now = options_.now();
  // A steady clock does not step back; if one did, it must not reduce the budget.
  const double seconds = std::max(0.0, std::chrono::duration<double>(now - last_).count());
  last_ = now;
  Add(seconds);
}

void WriteAdmission::Add(double seconds) {
  const double rate = static_cast<double>(options_.bytes_per_day) / kDaySeconds;
  left_bytes_ = std::min(burst_bytes_, left_bytes_ + seconds * rate);
  day_seconds_ += seconds;
  if (day_seconds_ >= kDaySeconds) {
    day_seconds_ = std::fmod(day_seconds_, kDaySeconds);
    spent_bytes_ = 0;
  }
}

bool WriteAdmission::Admit(uint64_t bytes, WritePriority priority) {
  const std::lock_guard lock(mutex_);
  Refill();
  const auto wanted = static_cast<double>(bytes);
  if (options_.bytes_per_day > 0) {
    const bool plenty = left_bytes_ > burst_bytes_ / 2;
    const bool fits = left_bytes_ >= wanted;
    const bool admitted = priority == WritePriority::kPinned ||
                          (fits && (plenty || priority == WritePriority::kWorthy));
    if (!admitted) {
      refused_bytes_ += bytes;
      return false;
    }
    // Pins are bounded where they are created; the debt is bounded so that others wait at most a
    // day.
    left_bytes_ = std::max(left_bytes_ - wanted, -burst_bytes_);
  }
  spent_bytes_ += bytes;
  return true;
}

void WriteAdmission::GiveBack(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (options_.bytes_per_day > 0) {
    left_bytes_ = std::min(left_bytes_ + static_cast<double>(bytes), burst_bytes_);
  }
  spent_bytes_ -= std::min(bytes, spent_bytes_);  // a day may have ended since
}

WriteAdmissionStats WriteAdmission::stats() {
  const std::lock_guard lock(mutex_);
  Refill();
  return {.budget_bytes_per_day = options_.bytes_per_day,
          .left_bytes = static_cast<int64_t>(left_bytes_),
          .spent_bytes = spent_bytes_,
          .refused_bytes = refused_bytes_};
}

WriteAdmissionState WriteAdmission::state() {
  const std::lock_guard lock(mutex_);
  Refill();
  return {.left_bytes = static_cast<int64_t>(left_bytes_),
          .spent_bytes = spent_bytes_,
          .day_seconds = static_cast<int64_t>(day_seconds_)};
}

void WriteAdmission::Restore(const WriteAdmissionState& state, std::chrono::seconds away) {
  const std::lock_guard lock(mutex_);
  last_ = options_.now();
  // The budget may have changed: the rest of a larger bucket does not fit this one.
  left_bytes_ = std::clamp(static_cast<double>(state.left_bytes), -burst_bytes_, burst_bytes_);
  spent_bytes_ = state.spent_bytes;
  day_seconds_ = std::clamp(static_cast<double>(state.day_seconds), 0.0, kDaySeconds);
  Add(std::clamp(static_cast<double>(away.count()), 0.0, kDaySeconds));
}

}  // namespace kvgate::tier
