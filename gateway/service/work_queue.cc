#include "gateway/service/work_queue.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/log.h"
#include "base/memory_fence.h"
#include "base/thread_activity.h"

namespace kvgate::service {
namespace {

constexpr int kRetrySeconds = 1;
// If there is no memory to begin a piece of work, the thread waits this long for some.
constexpr std::chrono::milliseconds kMemoryRetry{20};
// A disk that has been silent for long gets a longer retry time than a full queue.
constexpr int kLostRetrySeconds = 5;

Error Overloaded(std::string detail) {
  Error error = MakeError(ErrorCode::kOverloaded, "service.work", std::move(detail));
  error.retryable = true;
  error.retry_after_seconds = kRetrySeconds;
  return error;
}

}  // namespace

WorkQueue::WorkQueue(Options options)
    : options_(std::move(options)),
      tenant_queue_max_(std::max<size_t>(
          1, static_cast<size_t>(static_cast<double>(options_.queue_max) * options_.tenant_share))),
      tenant_threads_max_(static_cast<size_t>(std::max(1, options_.threads - 1))) {
  try {
    for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Run(); });
  } catch (...) {  // the system has no thread left, and those already started must be joined
    Stop();
    throw;
  }
}

WorkQueue::~WorkQueue() { Stop(); }

void WorkQueue::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Result<void> WorkQueue::Post(std::string_view tenant, Work work) {
  {
    const std::lock_guard lock(mutex_);
    if (IsLost(tenant)) {
      ++stats_.num_refused;
      return LostError();
    }
    const auto found = tenants_.find(tenant);
    const size_t num_own = found == tenants_.end() ? 0 : found->second.queue.size();
    if (stats_.num_queued >= options_.queue_max || num_own >= tenant_queue_max_) {
      ++stats_.num_refused;
      return Overloaded(
          num_own >= tenant_queue_max_
              ? fmt::format("{} of your requests wait for the {} threads, which is your limit.",
                            num_own, options_.name)
              : fmt::format("{} requests wait for the {} threads, which is the limit.",
                            stats_.num_queued, options_.name));
    }
    Tenant& own = found == tenants_.end() ? tenants_[std::string(tenant)] : found->second;
    own.queue.push_back(std::move(work));
    ++stats_.num_queued;
  }
  wake_.notify_one();
  return {};
}

Result<void> WorkQueue::CheckAlive(std::string_view tenant) const {
  const std::lock_guard lock(mutex_);
  if (IsLost(tenant)) return LostError();
  return {};
}

WorkQueue::Stats WorkQueue::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

bool WorkQueue::IsLost(std::string_view tenant) const {
  if (options_.stalled_after.count() == 0) return false;
  const Clock::time_point begun_before = Now() - options_.stalled_after;
  const auto count_lost = [&](const Tenant& one) {
    return static_cast<size_t>(std::count_if(one.running.begin(), one.running.end(),
                                             [&](auto since) { return since <= begun_before; }));
  };
  size_t num_lost = 0;
  for (const auto& [name, one] : tenants_) num_lost += count_lost(one);
  if (num_lost >= static_cast<size_t>(options_.threads)) return true;
  const auto own = tenants_.find(tenant);
  return own != tenants_.end() && count_lost(own->second) >= tenant_threads_max_;
}

Error WorkQueue::LostError() const {
  const char* const who =
      options_.waits_for_disk ? "The disk has not answered" : "The threads for this have been busy";
  Error error =
      MakeError(ErrorCode::kUnavailable, "service.work",
                fmt::format("{} for {} ms; try again later.", who, options_.stalled_after.count()));
  error.retryable = true;
  error.retry_after_seconds = kLostRetrySeconds;
  return error;
}

const std::string* WorkQueue::NextTenant() const {
  const auto begin = tenants_.upper_bound(last_);
  const auto may_run = [&](const auto& entry) {
    return !entry.second.queue.empty() && entry.second.running.size() < tenant_threads_max_;
  };
  auto found = std::find_if(begin, tenants_.end(), may_run);
  if (found == tenants_.end()) {
    found = std::find_if(tenants_.begin(), begin, may_run);
    if (found == begin) return nullptr;
  }
  return &found->first;
}

void WorkQueue::Run() {
  ThreadActivity activity({.pool = options_.name,
                           .patience = options_.patience,
                           .waits_for_disk = options_.waits_for_disk});
  // On Linux this sets the priority of the calling thread alone.
  if (options_.nice > 0) (void)::setpriority(PRIO_PROCESS, 0, options_.nice);
  std::unique_lock lock(mutex_);
  while (true) {
    const std::string* next = nullptr;
    wake_.wait(lock, [&] {
      next = NextTenant();
      return next != nullptr || (stopping_ && stats_.num_queued == 0);
    });
    if (next == nullptr) return;
    const auto own = tenants_.find(*next);  // stays valid: not erased while work runs
    const Clock::time_point since = Now();
    try {
      last_ = *next;
      own->second.running.push_back(since);
    } catch (const std::bad_alloc&) {
      wake_.wait_for(lock, kMemoryRetry);
      continue;
    }
    Work work = std::move(own->second.queue.front());
    own->second.queue.pop_front();
    --stats_.num_queued;
    ++stats_.num_running;
    lock.unlock();
    activity.Begin(options_.name);
    try {
      work();
    } catch (const std::exception& failure) {
      LogFailure("service", "work threw on a thread of ", options_.name, failure);
    }
    work = nullptr;  // destroys what the work holds without the lock
    activity.End();
    lock.lock();
    auto& running = own->second.running;
    running.erase(std::find(running.begin(), running.end(), since));
    --stats_.num_running;
    ++stats_.num_done;
    // A tenant at its thread limit may now have a thread, and a stopping thread may now end.
    if (own->second.queue.empty() && running.empty()) tenants_.erase(own);
    wake_.notify_all();
  }
}

}  // namespace kvgate::service
