// WorkRunner runs one request's slow work on the threads of the pools, and waits for it on the
// request's executor. Used on that executor, by one coroutine at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/result.h"
#include "gateway/proxy/work/wake_signal.h"
#include "gateway/service/work_pools.h"
#include "gateway/upstream/wire/task.h"

namespace kvgate::proxy::work {

using upstream::wire::kAwait;
using upstream::wire::Task;

// Larger bodies are scanned, copied and hashed on a worker: a body of 15 MB would block a loop, and
// every request on it, for a tenth of a second.
inline constexpr size_t kLargeBodyBytes = size_t{1} << 20;

class WorkRunner {
 public:
  using Clock = SteadyClock;
  struct Args {
    service::WorkPools& pools;
    WakeSignal& signal;
    const WakeSignal::Executor executor;  // the signal's
    const bool& is_cancelled;             // the server ends: waits for a disk are given up
    std::string tenant;                   // whose turn the work takes in the pools
    std::string request_id;               // for messages
  };
  explicit WorkRunner(Args args) : args_(std::move(args)) {}

  service::WorkPools& pools() { return args_.pools; }

  // Runs `work` on a thread of the pool. It may borrow from the awaiting coroutine, which does
  // nothing else meanwhile. Returns an error if `work` was not called or ran out of memory.
  Task<Result<void>> RunOn(service::WorkQueue& pool, std::function<void()> work);
  // Runs work whose time grows with the body: on a worker if the body is large and the pool has
  // room, else here.
  Task<void> RunSized(size_t body_bytes, std::function<void()> work);
  // Like RunOn, for work that waits for the disk, which may never answer; so `work` must own what
  // it uses. Returns an error if `work` was not called or has not ended in time, in which case it
  // may still do so. Work that counts `steps` gets the full timeout for each step.
  using Steps = std::atomic<uint64_t>;
  Task<Result<void>> RunOnDisk(service::WorkQueue& pool, std::function<void()> work,
                               std::shared_ptr<const Steps> steps = nullptr);
  // Posts work that runs in any case, and waits for it no longer than until `deadline`. Returns an
  // error if it was not posted.
  Task<Result<void>> RunUntil(service::WorkQueue& pool, std::function<void()> work,
                              Clock::time_point deadline);

 private:
  // One piece of work that was posted to a pool.
  struct Job {
    bool done = false;  // set on the executor
    std::atomic<bool> begun{false};
    std::atomic<bool> ended{false};  // `work` has ended and was destroyed
    std::atomic<bool> given_up{false};
  };
  Result<std::shared_ptr<Job>> PostJob(service::WorkQueue& pool, std::function<void()> work);
  Task<bool> Await(Job& job, Clock::time_point deadline);

  const Args args_;
};

}  // namespace kvgate::proxy::work
