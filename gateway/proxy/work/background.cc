#include "gateway/proxy/work/background.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <utility>

#include "base/memory_fence.h"

namespace kvgate::proxy::work {

struct Background::Running {
  std::shared_ptr<BackgroundJob> job;
  Executor executor;
};

bool Background::Spawn(std::shared_ptr<BackgroundJob> job, const Executor& executor) {
  auto running = std::make_shared<Running>(Running{.job = std::move(job), .executor = executor});
  {
    const std::lock_guard lock(mutex_);
    if (is_closed_ || jobs_.size() >= jobs_max_) return false;
    jobs_.insert(running);
  }
  BackgroundJob& borrowed = *running->job;
  // The handler holds the job, so the coroutine's `this` lives as long as its frame.
  boost::asio::co_spawn(
      executor, borrowed.Run(), [this, running = std::move(running)](std::exception_ptr failure) {
        if (failure) {
          try {
            std::rethrow_exception(failure);
          } catch (const std::exception& error) {
            LogFailure("proxy", "background work ended by an exception", "", error);
          }
        }
        Remove(running);
      });
  return true;
}

void Background::Remove(const std::shared_ptr<Running>& running) {
  const std::lock_guard lock(mutex_);
  jobs_.erase(running);
  // Notifies under the lock, because this may be destroyed as soon as a waiter sees it empty.
  if (jobs_.empty()) empty_.notify_all();
}

void Background::Close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
}

void Background::CancelAll() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  for (const auto& running : jobs_) {
    boost::asio::post(running->executor, [job = running->job] { job->Cancel(); });
  }
}

void Background::EndAll() {
  do {
    CancelAll();
  } while (!WaitEmpty(std::chrono::seconds(1)));
}

bool Background::WaitEmpty(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return empty_.wait_for(lock, timeout, [&] { return jobs_.empty(); });
}

size_t Background::size() const {
  const std::lock_guard lock(mutex_);
  return jobs_.size();
}

}  // namespace kvgate::proxy::work
