// WakeSignal: how a coroutine sleeps until another thread has something for it. One coroutine at a
// time may sleep; a wake-up while nobody sleeps is lost, so the sleeper looks for what it wants
// before it sleeps. That is safe because both run on one executor.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "gateway/upstream/wire/task.h"
#include "gateway/upstream/wire/timer.h"

namespace kvgate::proxy::work {

class WakeSignal {
 public:
  using Clock = SteadyClock;
  using Executor = boost::asio::any_io_executor;
  // `executor` runs one handler at a time.
  explicit WakeSignal(const Executor& executor)
      : timer_(std::make_shared<upstream::wire::Timer>(executor)) {}

  // Ends the current sleep. On the executor only.
  void Wake() { timer_->cancel(); }
  // Returns a function that calls Wake on the executor. Callable from any thread, as often as
  // wanted, and when the signal is gone.
  std::function<void()> MakeWake() const {
    return [weak = std::weak_ptr(timer_), executor = timer_->get_executor()] {
      boost::asio::post(executor, [weak] {
        if (const auto timer = weak.lock()) timer->cancel();
      });
    };
  }
  // Like MakeWake, for a caller that is on the executor already.
  std::function<void()> MakeWakeHere() const {
    return [weak = std::weak_ptr(timer_)] {
      if (const auto timer = weak.lock()) timer->cancel();
    };
  }
  // Sleeps until woken, or until this time.
  upstream::wire::Task<void> SleepUntil(Clock::time_point time) {
    timer_->expires_at(time);
    co_await timer_->async_wait(upstream::wire::kAwait);
  }

 private:
  const std::shared_ptr<upstream::wire::Timer> timer_;
};

}  // namespace kvgate::proxy::work
