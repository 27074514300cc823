// SimulatedTime runs everything of a simulation on one thread and one clock: a gateway's
// coroutines, the providers' ends of its connections, its clients. The clock stands still while
// anything can be done, and then jumps to the next moment at which something is due. Work that the
// gateway hands to a thread is waited for at once, so that its end has one place in the order.
#pragma once

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "gateway/upstream/wire/task.h"
#include "gateway/upstream/wire/timer.h"
#include "tests/manual_clock.h"

namespace kvgate::test {

class SimulatedTime {
 public:
  using Time = SteadyClock::time_point;
  using Duration = std::chrono::microseconds;

  SimulatedTime() : clock_(kBegin, kBeginUs), look_(io_) {}
  SimulatedTime(const SimulatedTime&) = delete;
  SimulatedTime& operator=(const SimulatedTime&) = delete;

  boost::asio::io_context& io() { return io_; }
  static Time now() { return SteadyClock::now(); }
  // Since the simulation began.
  static Duration elapsed() { return std::chrono::duration_cast<Duration>(now() - kBegin); }

  // Calls `action` when that time has passed; those of one moment in the order of the calls.
  void After(Duration time, std::function<void()> action) {
    events_.emplace(now() + time, std::move(action));
  }
  // Says that a timer of the gateway runs out then. One that nobody has told of ends up to kStep
  // late.
  void ExpectTimer(Duration time) { events_.emplace(now() + time, nullptr); }
  // Waits for that time; returns false if `timer` is cancelled before. It is not Asio that counts
  // the time, because that asks the kernel, which takes its own time to answer.
  upstream::wire::Task<bool> Sleep(upstream::wire::Timer& timer, Duration time) {
    const auto sleep = std::make_shared<Sleeping>(Sleeping{.timer = &timer});
    const Waking waking{*sleep};
    After(time, [sleep] {
      if (sleep->timer == nullptr) return;
      sleep->is_over = true;
      sleep->timer->cancel();
    });
    timer.expires_at(Time::max());
    co_await timer.async_wait(upstream::wire::kAwait);
    co_return sleep->is_over;
  }
  // Called after everything that runs; waits until no thread works.
  std::function<void()> settle = [] {};

  // Returns false if `is_done` does not hold within `limit`.
  bool RunUntil(const std::function<bool()>& is_done, Duration limit) {
    const Time end = now() + limit;
    for (RunReady(); !is_done(); RunReady()) {
      if (now() >= end) return false;
      Time next = std::min<Time>(end, looked_at_ + kStep);
      if (!events_.empty()) next = std::min(next, std::max(now(), events_.begin()->first));
      ManualClock::Advance(std::chrono::ceil<Duration>(next - now()));
      if (now() >= looked_at_ + kStep) Look();
      while (!events_.empty() && events_.begin()->first <= now()) {
        const std::function<void()> action = std::move(events_.begin()->second);
        events_.erase(events_.begin());
        if (action) {
          action();
          RunReady();
        } else {
          Look();
        }
      }
    }
    return true;
  }

 private:
  struct Sleeping {
    upstream::wire::Timer* timer = nullptr;  // null: nobody sleeps any more
    bool is_over = false;
  };
  struct Waking {
    Sleeping& sleep;
    ~Waking() { sleep.timer = nullptr; }
  };
  static constexpr Duration kStep{100'000};
  // Any moment, but always the same one: 2026-03-04.
  static constexpr Time kBegin{std::chrono::hours(1'000)};
  static constexpr int64_t kBeginUs = 1'772'600'000'000'000;

  void RunReady() {
    while (io_.poll_one() > 0) settle();
  }
  // Makes Asio look at its timers: it does so when a wait that is due has been told to the kernel
  // and back. All other timers that are due end with it, in the order of their times.
  void Look() {
    looked_at_ = now();
    bool has_looked = false;
    look_.expires_at(Time());
    look_.async_wait([&has_looked](const boost::system::error_code&) { has_looked = true; });
    while (!has_looked) {
      if (io_.poll_one() > 0) settle();
    }
    RunReady();
  }

  ManualClock clock_;
  std::multimap<Time, std::function<void()>> events_;
  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_{
      io_.get_executor()};
  upstream::wire::Timer look_;
  Time looked_at_ = kBegin;
};

}  // namespace kvgate::test
