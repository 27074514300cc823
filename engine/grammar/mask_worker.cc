#include "engine/grammar/mask_worker.h"

#include <malloc.h>
#include <pthread.h>

#include <algorithm>
#include <utility>

#include "engine/grammar/matcher.h"

namespace kvgate::grammar {
namespace {

// So much that was freed goes back to the system: glibc keeps small blocks for the next grammar.
constexpr size_t kTrimBytes = size_t{8} << 20;

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

void MaskWorker::Discard(std::shared_ptr<MaskTable> table) {
  {
    const std::lock_guard lock(mutex_);
    discarded_.push_back(std::move(table));
  }
  wanted_.notify_one();
}

void MaskWorker::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wanted_.wait(lock, [this] { return stopping_ || !tasks_.empty() || !discarded_.empty(); });
    if (!tasks_.empty()) {
      // All tables of the queue are lent to this thread.
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
      std::vector<std::shared_ptr<MaskTable>> tables = std::exchange(discarded_, {});
      lock.unlock();
      size_t bytes = 0;
      for (const auto& table : tables) bytes += table->bytes() + table->grammar().automaton.bytes();
      tables.clear();
      if (bytes >= kTrimBytes) malloc_trim(0);
      lock.lock();
    } else if (stopping_) {
      return;
    }
  }
}

void MaskWorker::Answer(Task task) {
  MaskTable& table = task.matcher->table();
  if (!task.matcher->is_abandoned()) {
    table.Tidy();
    const uint64_t before = table.states().work();
    task.matcher->Work(table.work_max());
    table.AddLentWork(table.states().work() - before);
    const size_t bytes = table.bytes();
    if (table.Tidy() && bytes >= kTrimBytes) malloc_trim(0);
  }
  task.done(std::move(task.matcher));  // this thread must not be the last to hold it
}

}  // namespace kvgate::grammar
