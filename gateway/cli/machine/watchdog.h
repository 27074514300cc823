// Watchdog: checks what the program's threads are doing (base/thread_activity.h). For each thread
// that has been at one activity for longer than allowed it logs one line per stall, with that
// thread's stack, and counts the stall. A thread that waits for a disk is reported as a slow disk.
//
// The thread collects its own stack in a signal handler that allocates no memory. Signal handlers
// are process-wide, so this belongs to the program and to no library. At most lines_per_minute_max
// lines are logged; further stalls are only counted.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "base/thread_activity.h"
#include "gateway/metrics/registry.h"

namespace kvgate::cli::machine {

class Watchdog {
 public:
  using Clock = ThreadActivity::Clock;
  struct Options {
    std::chrono::milliseconds interval{250};
    int lines_per_minute_max = 10;
    std::chrono::milliseconds stack_timeout{200};  // time for a thread to record its stack
    std::function<Clock::time_point()> now = {};   // empty: the steady clock
    // Receives the lines; empty: they go to the log.
    std::function<void(const std::string& line)> write = {};
    bool runs = true;  // false: the owner calls Look itself
  };
  // `registry` must outlive the watchdog, which registers before the registry's first Text().
  Watchdog(const Options& options, metrics::Registry& registry);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Checks all threads once.
  void Look();

 private:
  void Run();
  void Report(const ThreadActivity::View& view, Clock::time_point now);
  bool MayWrite(Clock::time_point now);

  const Options options_;
  metrics::CounterFamily& stalled_;
  std::map<uint64_t, Clock::time_point> reported_;  // activity id -> start of the reported stall
  Clock::time_point minute_{};
  int num_lines_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;  // last: starts when the other members exist
};

}  // namespace kvgate::cli::machine
