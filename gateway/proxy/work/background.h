// Background: work of the gateway's own that no client waits for. It owns every such job: it starts
// them, tells them to end and waits for the last one; none runs outside of it. Thread-safe.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "gateway/upstream/wire/task.h"

namespace kvgate::proxy::work {

// One job. Both functions run on its executor, which runs one handler at a time.
class BackgroundJob {
 public:
  virtual ~BackgroundJob() = default;
  virtual upstream::wire::Task<void> Run() = 0;
  // Run is to end soon. It may have ended.
  virtual void Cancel() = 0;
};

class Background {
 public:
  using Executor = boost::asio::any_io_executor;
  static constexpr size_t kJobsMax = 64;
  explicit Background(size_t jobs_max = kJobsMax) : jobs_max_(jobs_max) {}

  // Starts a job on `executor`. Returns false, and starts none, if there are `jobs_max` or Close
  // was called.
  bool Spawn(std::shared_ptr<BackgroundJob> job, const Executor& executor);
  // No more jobs are started; those under way go on.
  void Close();
  // Closes, and cancels those under way.
  void CancelAll();
  // The same, and waits for the last one to end. Not on an executor of theirs.
  void EndAll();
  // Returns false if some are left when the time is over.
  bool WaitEmpty(std::chrono::milliseconds timeout);
  size_t size() const;

 private:
  struct Running;
  void Remove(const std::shared_ptr<Running>& running);

  const size_t jobs_max_;
  mutable std::mutex mutex_;
  std::condition_variable empty_;
  bool is_closed_ = false;
  std::unordered_set<std::shared_ptr<Running>> jobs_;
};

}  // namespace kvgate::proxy::work
