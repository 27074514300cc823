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
  return options_.failures != 0 && failures_ >= options_.failures && now < next_try_;
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
