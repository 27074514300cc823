#include "gateway/proxy/work/work_runner.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "base/memory_fence.h"
#include "engine/engine.h"

namespace kvgate::proxy::work {

namespace {

namespace asio = boost::asio;
using Clock = SteadyClock;

// A disk that has hung for a timeout is likely to hang for some seconds more.
constexpr int kDiskRetrySeconds = 5;

constexpr Clock::time_point kNoDeadline = Clock::time_point::max();

// Reports in `outcome` that `work` ran out of memory; otherwise the waiting request would retry it
// for ever.
std::function<void()> Fenced(std::function<void()> work, std::shared_ptr<Result<void>> outcome) {
  return [work = std::move(work), outcome = std::move(outcome)] {
    try {
      work();
    } catch (const std::bad_alloc&) {
      *outcome = engine::OutOfMemory();
    }
  };
}

}  // namespace

Result<std::shared_ptr<WorkRunner::Job>> WorkRunner::PostJob(service::WorkQueue& pool,
                                                             std::function<void()> work) {
  auto job = std::make_shared<Job>();
  auto run = [job, work = std::move(work), wake = args_.signal.MakeWakeHere(),
              executor = args_.executor, id = args_.request_id]() mutable {
    job->begun.store(true);
    if (!job->given_up.load()) {
      try {
        work();
      } catch (const std::exception& failure) {
        LogFailure("proxy", "request ", id, failure);
      }
    }
    work = nullptr;
    job->ended.store(true);
    // If this post failed, the waiting coroutine would never wake up.
    Insist([&] {
      asio::post(executor, [job, wake] {
        job->done = true;
        if (!job->given_up.load()) wake();
      });
    });
  };
  KVGATE_TRY_VOID(pool.Post(args_.tenant, std::move(run)));
  return job;
}

// Returns true if the job is done.
Task<bool> WorkRunner::Await(Job& job, Clock::time_point deadline) {
  while (!job.done && Clock::now() < deadline && !(args_.is_cancelled && deadline != kNoDeadline)) {
    co_await args_.signal.SleepUntil(deadline);
  }
  co_return job.done;
}

Task<Result<void>> WorkRunner::RunOn(service::WorkQueue& pool, std::function<void()> work) {
  auto outcome = std::make_shared<Result<void>>();
  const Result<std::shared_ptr<Job>> job = PostJob(pool, Fenced(std::move(work), outcome));
  if (!job) co_return job.error();
  try {
    co_await Await(**job, kNoDeadline);
  } catch (const std::bad_alloc&) {
    // There is no memory to wait with, but `work` still borrows from the caller's frame, so spin
    // until it has ended.
    while (!(*job)->ended.load()) std::this_thread::yield();
    throw;
  }
  co_return *outcome;
}

Task<void> WorkRunner::RunSized(size_t body_bytes, std::function<void()> work) {
  if (body_bytes >= kLargeBodyBytes) {
    std::function<void()> shared = work;
    const Result<void> ran = co_await RunOn(args_.pools.request, std::move(shared));
    if (ran) co_return;
  }
  work();
}

Task<Result<void>> WorkRunner::RunOnDisk(service::WorkQueue& pool, std::function<void()> work,
                                         std::shared_ptr<const Steps> steps) {
  const service::WorkPools::Options& options = args_.pools.options();
  const auto timeout = &pool == &args_.pools.bulk ? options.bulk_timeout : options.store_timeout;
  auto outcome = std::make_shared<Result<void>>();
  const Result<std::shared_ptr<Job>> job = PostJob(pool, Fenced(std::move(work), outcome));
  if (!job) co_return job.error();
  uint64_t seen = 0;
  while (true) {
    const bool done = co_await Await(**job, Clock::now() + timeout);
    if (done) co_return *outcome;
    const uint64_t num_steps = steps == nullptr ? 0 : steps->load(std::memory_order_relaxed);
    if (num_steps == seen || args_.is_cancelled) break;
    seen = num_steps;
  }
  (*job)->given_up.store(true);
  Error error = MakeError(
      ErrorCode::kUnavailable, "proxy",
      (*job)->begun.load()
          ? fmt::format("The disk has not answered within {} ms; try again later.", timeout.count())
          : fmt::format("All {} threads have been busy for {} ms; try again later.", pool.name(),
                        timeout.count()));
  error.retryable = true;
  error.retry_after_seconds = kDiskRetrySeconds;
  co_return error;
}

Task<Result<void>> WorkRunner::RunUntil(service::WorkQueue& pool, std::function<void()> work,
                                        Clock::time_point deadline) {
  const Result<std::shared_ptr<Job>> job = PostJob(pool, std::move(work));
  if (!job) co_return job.error();
  co_await Await(**job, deadline);
  co_return Result<void>();
}

}  // namespace kvgate::proxy::work
