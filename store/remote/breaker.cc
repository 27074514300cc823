#include "store/remote/breaker.h"

#include <algorithm>

namespace kvgate::store::remote {

bool Breaker::Allow(TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (!has_tripped()) return true;
  if (now < next_trial_) return false;
  // A trial may take longer than a pause; then there is another one.
  next_trial_ = now + options_.pause;
  return true;
}

bool Breaker::Succeed() {
  const std::lock_guard lock(mutex_);
  const bool had_tripped = has_tripped();
  num_failures_ = 0;
  return had_tripped;
}

bool Breaker::Fail(TimePoint now) {
  const std::lock_guard lock(mutex_);
  const bool had_tripped = has_tripped();
  num_failures_ = std::min(num_failures_ + 1, std::max(options_.failures_max, 1));
  next_trial_ = now + options_.pause;
  return has_tripped() && !had_tripped;
}

bool Breaker::IsPaused(TimePoint now) const {
  const std::lock_guard lock(mutex_);
  return has_tripped() && now < next_trial_;
}

std::chrono::milliseconds Breaker::UntilTrial(TimePoint now) const {
  const std::lock_guard lock(mutex_);
  if (!has_tripped() || now >= next_trial_) return std::chrono::milliseconds(0);
  return std::chrono::ceil<std::chrono::milliseconds>(next_trial_ - now);
}

}  // namespace kvgate::store::remote
