// WorkQueue runs slow work on a few threads behind a bounded queue that is fair between tenants:
// they take turns, none has more than its share of the queue, and if there are several threads none
// gets all of them. One tenant's work therefore delays another's by no more than the pieces that
// are running.
//
// A thread that hangs in a disk access is not replaced. Once every thread that a tenant may use has
// been busy for `stalled_after`, the tenant's work is refused at once instead of queued.
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

#include "base/clock.h"
#include "base/result.h"

namespace kvgate::service {

class WorkQueue {
 public:
  using Clock = SteadyClock;
  struct Options {
    const char* name = "work";  // in messages and metrics; must live forever
    int threads = 2;
    size_t queue_max = 1024;      // waiting pieces; more are refused
    double tenant_share = 0.5;    // of the queue for one tenant; at least one place
    bool waits_for_disk = false;  // its threads are held by a disk, and refusals say so
    // The time one piece of work may take before it is reported as a stall.
    std::chrono::milliseconds patience{1'000};
    // Threads busy for longer count as lost; 0 means that none does.
    std::chrono::milliseconds stalled_after{0};
    // The nice(1) value of its threads, for when all cores are busy.
    int nice = 0;
    std::function<Clock::time_point()> now = {};  // empty means the steady clock
  };
  explicit WorkQueue(Options options);
  // Runs what is queued, then joins.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  using Work = std::function<void()>;
  // `work` is called once, on one of the threads, and must not throw. Returns kOverloaded if the
  // queue or the tenant's share of it is full, and kUnavailable if the disk does not answer. Both
  // carry the time after which a retry may help, and `work` is then not called.
  Result<void> Post(std::string_view tenant, Work work);
  // Returns the error with which Post would refuse because its threads are lost.
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
    std::vector<Clock::time_point> running;  // start times of the running pieces
  };

  void Run();
  void Stop();  // runs what is queued, then joins
  Clock::time_point Now() const { return options_.now ? options_.now() : Clock::now(); }
  // All of these REQUIRE mutex_ held.
  bool IsLost(std::string_view tenant) const;
  Error LostError() const;
  // Returns the tenant whose turn it is, or null if no tenant with work may have a thread.
  const std::string* NextTenant() const;

  const Options options_;
  const size_t tenant_queue_max_;
  const size_t tenant_threads_max_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, Tenant, std::less<>> tenants_;  // only tenants with work
  std::string last_;                                    // the tenant that had the last turn
  Stats stats_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;  // declared last: they use all other members
};

}  // namespace kvgate::service
