// WorkQueue: a few threads for work that takes time, behind a queue with a bound, fair between
// tenants: they take turns, none has more than its share of the queue, and none has all threads
// where there are several, so that what one tenant has asked for never keeps another one waiting
// for more than the piece of work that is running.
//
// A thread that a disk has swallowed is not given up: once every thread that a tenant may have has
// been busy for `stalled_after`, its work is refused at once and not queued behind them.
// Thread-safe. It knows no sockets.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <kvgate/result.h>

namespace kvgate::service {

class WorkQueue {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    const char* name = "work";  // in messages and metrics; lives for ever
    int threads = 2;
    size_t queue_max = 1024;      // waiting; beyond: refused
    double tenant_share = 0.5;    // of the queue, for one tenant; at least one place
    bool waits_for_disk = false;  // what holds its threads is a disk, and refusals say so
    // What one piece of work may take before it is reported as a stall.
    std::chrono::milliseconds patience{1'000};
    // Threads busy for longer count as lost; 0: none does.
    std::chrono::milliseconds stalled_after{0};
    // How far its threads stand back where all cores are busy, as nice(1) counts.
    int nice = 0;
    std::function<Clock::time_point()> now = {};  // empty: the steady clock
  };
  explicit WorkQueue(Options options);
  // Runs what is queued, and joins.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  using Work = std::function<void()>;
  // `work` is called once, on one of the threads, and must not throw. kOverloaded: the queue, or
  // the tenant's share of it, is full; kUnavailable: the disk does not answer. Both with the time
  // after which trying again may help; `work` is not called then.
  Result<void> Post(std::string_view tenant, Work work);
  // What Post would refuse because its threads are lost.
  Result<void> CheckAlive(std::string_view tenant) const;

  struct Stats {
    size_t num_queued = 0;
    size_t num_running = 0;
    uint64_t num_done = 0;
    uint64_t num_refused = 0;
  };
  Stats stats() const;
  const char* name() const { return options_.name; }

 private:
  struct Tenant {
    std::deque<Work> queue;
    std::vector<Clock::time_point> running;  // since when
  };

  void Run();
  void Stop();  // runs what is queued, and joins
  Clock::time_point Now() const { return options_.now ? options_.now() : Clock::now(); }
  // All of these REQUIRE mutex_ held.
  bool IsLost(std::string_view tenant) const;
  Error LostError() const;
  // Whose turn it is; null: nobody's that may have a thread now.
  const std::string* NextTenant() const;

  const Options options_;
  const size_t tenant_queue_max_;
  const size_t tenant_threads_max_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, Tenant, std::less<>> tenants_;  // those with work
  std::string last_;                                    // whose turn it was
  Stats stats_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;  // last: start when the rest is there
};

}  // namespace kvgate::service
