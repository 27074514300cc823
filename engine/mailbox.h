// Mailbox: carries messages from other threads to the engine thread. Many senders, one receiver.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace kvgate::engine {

// Messages are closures over the engine's state, run on its thread in order of arrival. Requests
// use TryPost, which is bounded. Messages that must not be lost (completions, cancels) use Post;
// their number is bounded by the requests and jobs that cause them.
class Mailbox {
 public:
  using Message = std::function<void()>;

  explicit Mailbox(size_t bounded_max) : bounded_max_(bounded_max) {}

  void Post(Message message) {
    {
      const std::lock_guard lock(mutex_);
      messages_.push_back(std::move(message));
    }
    ready_.notify_one();
  }

  // Returns false if bounded_max messages sent this way have not been released yet.
  [[nodiscard]] bool TryPost(Message message) {
    {
      const std::lock_guard lock(mutex_);
      if (num_bounded_ >= bounded_max_) return false;
      ++num_bounded_;
      messages_.push_back(std::move(message));
    }
    ready_.notify_one();
    return true;
  }
  // Frees the place that one bounded message took, because its request no longer waits or runs.
  void ReleaseBounded() {
    const std::lock_guard lock(mutex_);
    --num_bounded_;
  }

  // Returns all messages so far, oldest first; waits up to `wait` for the first.
  std::vector<Message> TakeAll(std::chrono::microseconds wait) {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, wait, [this] { return !messages_.empty(); });
    return std::exchange(messages_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<Message> messages_;
  size_t num_bounded_ = 0;
  const size_t bounded_max_;
};

}  // namespace kvgate::engine
