#include "base/thread_activity.h"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <new>

namespace kvgate {
namespace {

struct All {
  std::mutex mutex;
  std::vector<const ThreadActivity*> activities;
  uint64_t last_id = 0;
};

// The list is never destroyed, because threads may outlive statics. It is not on the heap, so that
// a library that is unloaded leaves nothing there.
All& Everyone() {
  alignas(All) static std::byte bytes[sizeof(All)];
  static All* const all = new (bytes) All();
  return *all;
}

}  // namespace

ThreadActivity::ThreadActivity(const Options& options)
    : options_(options), thread_(::pthread_self()) {
  All& all = Everyone();
  const std::lock_guard lock(all.mutex);
  id_ = ++all.last_id;
  all.activities.push_back(this);
}

ThreadActivity::~ThreadActivity() {
  All& all = Everyone();
  const std::lock_guard lock(all.mutex);
  std::erase(all.activities, this);
  if (all.activities.empty()) all.activities.shrink_to_fit();
}

void ThreadActivity::ForEach(const std::function<void(const View&)>& visit) {
  All& all = Everyone();
  const std::lock_guard lock(all.mutex);
  for (const ThreadActivity* activity : all.activities) {
    const Clock::rep since = activity->since_.load(std::memory_order_acquire);
    if (since == 0) continue;
    visit({.pool = activity->options_.pool,
           .what = activity->what_.load(std::memory_order_relaxed),
           .thread = activity->thread_,
           .id = activity->id_,
           .since = Clock::time_point(Clock::duration(since)),
           .patience = activity->options_.patience,
           .waits_for_disk = activity->options_.waits_for_disk});
  }
}

}  // namespace kvgate
