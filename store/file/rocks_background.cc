#include "store/file/rocks_background.h"

#include <pthread.h>
#include <rocksdb/env.h>

#include <algorithm>
#include <array>
#include <deque>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace kvgate::store::file {
namespace {

struct Job {
  void (*run)(void* argument) = nullptr;
  void* argument = nullptr;
  void* tag = nullptr;
  void (*forget)(void* argument) = nullptr;  // instead of running it; may be null
};

// The jobs of one priority, in order. A thread lives as long as there are jobs for it.
class Pool {
 public:
  ~Pool() {
    std::unique_lock lock(mutex_);
    while (!threads_.empty()) {
      std::thread thread = std::move(threads_.front());
      threads_.pop_front();
      lock.unlock();
      thread.join();
      lock.lock();
    }
  }

  void Add(const Job& job) {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(job);
    if (num_running_ >= std::max(threads_max_, 1)) return;
    ReapEnded();
    threads_.emplace_back([this] { Work(); });
    ++num_running_;
  }

  int Remove(const void* tag) {
    std::vector<Job> removed;
    {
      const std::lock_guard lock(mutex_);
      const auto kept = std::stable_partition(jobs_.begin(), jobs_.end(),
                                              [tag](const Job& job) { return job.tag != tag; });
      removed.assign(kept, jobs_.end());
      jobs_.erase(kept, jobs_.end());
    }
    for (const Job& job : removed) {
      if (job.forget != nullptr) job.forget(job.argument);
    }
    return static_cast<int>(removed.size());
  }

  unsigned int size() const {
    const std::lock_guard lock(mutex_);
    return static_cast<unsigned int>(jobs_.size());
  }
  int threads_max() const {
    const std::lock_guard lock(mutex_);
    return threads_max_;
  }
  void SetThreadsMax(int count) {
    const std::lock_guard lock(mutex_);
    threads_max_ = count;
  }
  void RaiseThreadsMax(int count) {
    const std::lock_guard lock(mutex_);
    threads_max_ = std::max(threads_max_, count);
  }

 private:
  void Work() {
    ::pthread_setname_np(::pthread_self(), "kvgate-store");
    std::unique_lock lock(mutex_);
    while (!jobs_.empty()) {
      const Job job = jobs_.front();
      jobs_.pop_front();
      lock.unlock();
      job.run(job.argument);
      lock.lock();
    }
    --num_running_;
    ended_.push_back(std::this_thread::get_id());
  }

  // Joins threads that have nothing left to do but to return.
  void ReapEnded() {
    for (const std::thread::id id : std::exchange(ended_, {})) {
      const auto found = std::find_if(threads_.begin(), threads_.end(),
                                      [id](const auto& thread) { return thread.get_id() == id; });
      if (found == threads_.end()) continue;
      found->join();
      threads_.erase(found);
    }
  }

  mutable std::mutex mutex_;
  std::deque<Job> jobs_;
  std::list<std::thread> threads_;
  std::vector<std::thread::id> ended_;
  int num_running_ = 0;
  int threads_max_ = 0;
};

class BackgroundEnv final : public rocksdb::EnvWrapper {
 public:
  explicit BackgroundEnv(std::unique_ptr<rocksdb::Env> base)
      : EnvWrapper(base.get()), base_(std::move(base)) {
    // A wrapper would reach the files through an older interface.
    file_system_ = base_->GetFileSystem();
    system_clock_ = base_->GetSystemClock();
    pools_[LOW].SetThreadsMax(1);
    pools_[HIGH].SetThreadsMax(1);
  }
  const char* Name() const override { return "KvgateBackgroundEnv"; }

  void Schedule(void (*run)(void* argument), void* argument, Priority priority, void* tag,
                void (*forget)(void* argument)) override {
    pools_[priority].Add({.run = run, .argument = argument, .tag = tag, .forget = forget});
  }
  int UnSchedule(void* tag, Priority priority) override { return pools_[priority].Remove(tag); }
  unsigned int GetThreadPoolQueueLen(Priority priority) const override {
    return pools_[priority].size();
  }
  // None is set aside for parts of a compaction.
  int ReserveThreads(int /*count*/, Priority /*priority*/) override { return 0; }
  int ReleaseThreads(int /*count*/, Priority /*priority*/) override { return 0; }
  void SetBackgroundThreads(int count, Priority priority) override {
    pools_[priority].SetThreadsMax(count);
  }
  int GetBackgroundThreads(Priority priority) override { return pools_[priority].threads_max(); }
  void IncBackgroundThreadsIfNeeded(int count, Priority priority) override {
    pools_[priority].RaiseThreadsMax(count);
  }
  void LowerThreadPoolIOPriority(Priority /*priority*/) override {}
  void LowerThreadPoolCPUPriority(Priority /*priority*/) override {}
  rocksdb::Status LowerThreadPoolCPUPriority(Priority /*priority*/,
                                             rocksdb::CpuPriority /*wanted*/) override {
    return rocksdb::Status::OK();
  }

 private:
  const std::unique_ptr<rocksdb::Env> base_;
  std::array<Pool, TOTAL> pools_;
};

}  // namespace

std::unique_ptr<rocksdb::Env> MakeBackgroundEnv(std::unique_ptr<rocksdb::Env> base) {
  return std::make_unique<BackgroundEnv>(std::move(base));
}

}  // namespace kvgate::store::file
