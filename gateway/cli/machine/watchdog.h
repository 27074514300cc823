// Watchdog: looks at what the threads of the program are doing (kvgate/thread_activity.h) and says
// of each that has been at one thing for longer than it may: once per stall, a line with the stack
// of that thread, and a count. A thread that waits for a disk is reported as a slow disk.
//
// The stack is collected by the thread itself, in a signal's handler that allocates nothing. That
// is a thing of the whole process, so that it belongs to the program and to no library. At most
// lines_per_minute_max lines; the rest is counted.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include <kvgate/thread_activity.h>

#include "gateway/metrics/registry.h"

namespace kvgate::cli {

class Watchdog {
 public:
  using Clock = ThreadActivity::Clock;
  struct Options {
    std::chrono::milliseconds interval{250};
    int lines_per_minute_max = 10;
    std::chrono::milliseconds stack_timeout{200};  // for a thread to tell its stack
    std::function<Clock::time_point()> now = {};   // empty: the steady clock
    // Where lines go; empty: the log.
    std::function<void(const std::string& line)> write = {};
    bool runs = true;  // false: Look is called by whoever made it
  };
  // The registry outlives it; register before its first Text().
  Watchdog(const Options& options, metrics::Registry& registry);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Looks once.
  void Look();

 private:
  void Run();
  void Report(const ThreadActivity::View& view, Clock::time_point now);
  bool MayWrite(Clock::time_point now);

  const Options options_;
  metrics::CounterFamily& stalled_;
  std::map<uint64_t, Clock::time_point> reported_;  // activity: since when it does what was told
  Clock::time_point minute_{};
  int num_lines_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;  // last: starts when the rest is there
};

}  // namespace kvgate::cli
