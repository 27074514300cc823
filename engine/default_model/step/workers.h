// Threads that share the tasks of one phase after the other.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace kvgate::default_model::step {

class Workers {
 public:
  // The calling thread of Run() is one of them.
  explicit Workers(int count) : count_(count < 1 ? 1 : count) {
    for (int worker = 1; worker < count_; ++worker) {
      threads_.emplace_back([this, worker] { Serve(worker); });
    }
  }

  ~Workers() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      round_.fetch_add(1);
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int count() const { return count_; }

  // Calls `run(task, worker)` for each task below `tasks`, each once; returns when all are done.
  void Run(std::int64_t tasks, const std::function<void(std::int64_t, int)>& run) {
    {
      const std::lock_guard lock(mutex_);
      run_ = &run;
      tasks_ = tasks;
      next_ = 0;
      busy_ = count_ - 1;
      round_.fetch_add(1);
    }
    changed_.notify_all();
    Take(0);
    while (busy_.load() > 0) {
      std::this_thread::yield();
    }
  }

 private:
  static constexpr int kSpins = 2000;

  void Take(int worker) {
    for (std::int64_t task = next_++; task < tasks_; task = next_++) {
      (*run_)(task, worker);
    }
  }

  void Serve(int worker) {
    std::uint64_t seen = 0;
    while (true) {
      for (int spin = 0; spin < kSpins && round_.load() == seen; ++spin) {
        std::this_thread::yield();
      }
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return round_.load() != seen; });
        seen = round_.load();
        if (stop_) {
          return;
        }
      }
      Take(worker);
      --busy_;
    }
  }

  const int count_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<std::uint64_t> round_ = 0;
  bool stop_ = false;
  const std::function<void(std::int64_t, int)>* run_ = nullptr;
  std::int64_t tasks_ = 0;
  std::atomic<std::int64_t> next_ = 0;
  std::atomic<int> busy_ = 0;
};

}  // namespace kvgate::default_model::step
