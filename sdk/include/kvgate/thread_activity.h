// ThreadActivity: what a thread is doing, and since when, for whoever watches over the threads of a
// process. Marking costs two stores; where nobody watches nothing else happens: no signal, no
// thread, no handler comes with this library.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include <pthread.h>

namespace kvgate {

class ThreadActivity {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    const char* pool = "";  // lives for ever, as what is given to Begin
    // What it does may take so long.
    std::chrono::milliseconds patience{1'000};
    bool waits_for_disk = false;  // then it is a disk that is slow, and not this thread
  };
  // Of the calling thread, which also ends it.
  explicit ThreadActivity(const Options& options);
  ~ThreadActivity();
  ThreadActivity(const ThreadActivity&) = delete;
  ThreadActivity& operator=(const ThreadActivity&) = delete;

  // Something begins now; it takes the place of what was before.
  void Begin(const char* what) { BeginAt(what, Clock::now()); }
  void BeginAt(const char* what, Clock::time_point now) {
    what_.store(what, std::memory_order_relaxed);
    since_.store(now.time_since_epoch().count(), std::memory_order_release);
  }
  // It waits for work, which may take any time.
  void End() { since_.store(0, std::memory_order_release); }

  struct View {
    const char* pool;
    const char* what;
    pthread_t thread;
    uint64_t id;  // of the activity: never used again
    Clock::time_point since;
    std::chrono::milliseconds patience;
    bool waits_for_disk;
  };
  // Calls `visit` with all that are doing something; their threads do not end meanwhile.
  static void ForEach(const std::function<void(const View&)>& visit);

 private:
  const Options options_;
  const pthread_t thread_;
  uint64_t id_ = 0;
  std::atomic<const char*> what_{""};
  std::atomic<Clock::rep> since_{0};
};

}  // namespace kvgate
