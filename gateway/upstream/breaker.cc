#include "gateway/upstream/breaker.h"

#include <algorithm>

namespace kvgate::upstream {

bool Breaker::Allow(TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (options_.failures == 0 || failures_ < options_.failures) return true;
  if (now < next_try_) return false;
  // The trial's outcome may never be reported (its client leaves), so the next pause allows another
  // one.
  next_try_ = now + options_.pause;
  return true;
}

bool Breaker::IsOpen(TimePoint now) const {
  const std::lock_guard lock(mutex_);
  return has_tripped() && now < next_try_;
}

Breaker::State Breaker::state(TimePoint now) const {
  const std::lock_guard lock(mutex_);
  if (!has_tripped()) return State::kClosed;
  return now < next_try_ ? State::kOpen : State::kHalfOpen;
}

std::chrono::microseconds Breaker::until_trial(TimePoint now) const {
  const std::lock_guard lock(mutex_);
  if (!has_tripped() || now >= next_try_) return std::chrono::microseconds(0);
  return std::chrono::ceil<std::chrono::microseconds>(next_try_ - now);
}

void Breaker::Succeed() {
  const std::lock_guard lock(mutex_);
  failures_ = 0;
}

void Breaker::Fail(TimePoint now) {
  const std::lock_guard lock(mutex_);
  failures_ = std::min(failures_ + 1, std::max(options_.failures, 1));
  next_try_ = now + options_.pause;
}

int Breaker::retry_after_seconds(TimePoint now) const {
  const std::lock_guard lock(mutex_);
  const auto left = std::chrono::ceil<std::chrono::seconds>(next_try_ - now).count();
  return static_cast<int>(std::max<int64_t>(left, 1));
}

}  // namespace kvgate::upstream
