// ThreadActivity: records what a thread is doing and since when, for a watcher of the process's
// threads. Marking costs two stores. Without a watcher it has no other effect: this library
// installs no signal, thread or handler.
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
    const char* pool = "";  // a string that is never freed, as the ones given to Begin
    // The time that one piece of work may take.
    std::chrono::milliseconds patience{1'000};
    bool waits_for_disk = false;  // a slow piece of work is then the disk's fault, not the thread's
  };
  // Registers the calling thread, which must also destroy the object.
  explicit ThreadActivity(const Options& options);
  ~ThreadActivity();
  ThreadActivity(const ThreadActivity&) = delete;
  ThreadActivity& operator=(const ThreadActivity&) = delete;

  // Marks the start of a piece of work; it replaces the previous mark.
  void Begin(const char* what) { BeginAt(what, Clock::now()); }
  void BeginAt(const char* what, Clock::time_point now) {
    what_.store(what, std::memory_order_relaxed);
    since_.store(now.time_since_epoch().count(), std::memory_order_release);
  }
  // Marks the thread as waiting for work, which may take any time.
  void End() { since_.store(0, std::memory_order_release); }

  struct View {
    const char* pool;
    const char* what;
    pthread_t thread;
    uint64_t id;  // of the activity; never reused
    Clock::time_point since;
    std::chrono::milliseconds patience;
    bool waits_for_disk;
  };
  // Calls `visit` for each thread that is working. None of these threads can end during the call.
  static void ForEach(const std::function<void(const View&)>& visit);

 private:
  const Options options_;
  const pthread_t thread_;
  uint64_t id_ = 0;
  std::atomic<const char*> what_{""};
  std::atomic<Clock::rep> since_{0};
};

}  // namespace kvgate
