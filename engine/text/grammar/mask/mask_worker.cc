#include "engine/text/grammar/mask/mask_worker.h"

#include <malloc.h>
#include <pthread.h>

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "base/memory_fence.h"
#include "engine/text/grammar/mask/matcher.h"

namespace kvgate::grammar::mask {
namespace {

constexpr std::chrono::milliseconds kTrimIntervalMin{1'000};
constexpr int kTrimShare = 100;  // interval between trims, in durations of one

}  // namespace

MaskWorker::MaskWorker() {
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "kvgate-masks");
}

MaskWorker::~MaskWorker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wanted_.notify_one();
  thread_.join();
}

void MaskWorker::Post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wanted_.notify_one();
}

void MaskWorker::Discard(std::shared_ptr<const void> what, size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    discarded_.push_back(std::move(what));
    discarded_bytes_ += bytes;
  }
  wanted_.notify_one();
}

void MaskWorker::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto is_wanted = [this] {
      return stopping_ || !tasks_.empty() || !discarded_.empty() || IsTrimDue();
    };
    if (freed_bytes_ >= kTrimBytes) {
      wanted_.wait_until(lock, next_trim_, is_wanted);
    } else {
      wanted_.wait(lock, is_wanted);
    }
    if (!tasks_.empty()) {
      // The tables of all queued tasks are lent to this thread, so it may read them.
      const auto next =
          std::min_element(tasks_.begin(), tasks_.end(), [](const Task& a, const Task& b) {
            return a.matcher->table().lent_work() < b.matcher->table().lent_work();
          });
      Task task = std::move(*next);
      tasks_.erase(next);
      lock.unlock();
      Answer(std::move(task));
      lock.lock();
    } else if (!discarded_.empty()) {
      std::vector<std::shared_ptr<const void>> garbage = std::exchange(discarded_, {});
      freed_bytes_ += std::exchange(discarded_bytes_, 0);
      lock.unlock();
      garbage.clear();
      lock.lock();
    } else if (stopping_) {
      return;
    } else if (IsTrimDue()) {
      lock.unlock();
      GiveBack();
      lock.lock();
    }
  }
}

void MaskWorker::GiveBack() {
  freed_bytes_ = 0;
  const Clock::time_point began = Clock::now();
  malloc_trim(0);
  const Clock::time_point ended = Clock::now();
  next_trim_ = ended + std::max<Clock::duration>(kTrimIntervalMin, kTrimShare * (ended - began));
}

void MaskWorker::Answer(Task task) {
  MaskTable& table = task.matcher->table();
  try {
    if (!task.matcher->is_abandoned()) {
      table.Tidy();
      const uint64_t before = table.states().work();
      task.matcher->Work(table.work_max());
      table.AddLentWork(table.states().work() - before);
      const size_t bytes = table.bytes();
      if (table.Tidy()) freed_bytes_ += bytes - std::min(bytes, table.bytes());
      if (std::optional<Error> excess = table.FindExcess()) task.matcher->Fail(*std::move(excess));
    }
  } catch (const std::bad_alloc&) {
    // The text fits the small-string buffer, so no memory is needed.
    task.matcher->Fail(
        {.code = ErrorCode::kOverloaded, .source = "grammar", .detail = "out of memory"});
  }
  Insist([&] { task.done(task.matcher); });  // losing the answer would hang the sequence
}

}  // namespace kvgate::grammar::mask
