// BusyThreads holds the threads of a work queue, and fills the places of a tenant in it, until it
// is destroyed.
#pragma once

#include <gtest/gtest.h>

#include <future>
#include <string>

#include "gateway/service/work_queue.h"
#include "tests/wait_until.h"

namespace kvgate::test {

class BusyThreads {
 public:
  // Takes `num_threads` threads for tenants of their own, and fills the queue of `tenant`.
  BusyThreads(service::WorkQueue& queue, int num_threads, const std::string& tenant)
      : held_(release_.get_future().share()) {
    for (int i = 0; i < num_threads; ++i) {
      EXPECT_TRUE(queue.Post("holder " + std::to_string(i), [held = held_] { held.wait(); }));
    }
    EXPECT_TRUE(
        WaitUntil([&] { return queue.stats().num_running == static_cast<size_t>(num_threads); },
                  "the threads are held"));
    while (queue.Post(tenant, [held = held_] { held.wait(); })) {
    }
  }
  ~BusyThreads() { Release(); }
  BusyThreads(const BusyThreads&) = delete;
  BusyThreads& operator=(const BusyThreads&) = delete;

  void Release() {
    if (!std::exchange(is_released_, true)) release_.set_value();
  }

 private:
  std::promise<void> release_;
  std::shared_future<void> held_;
  bool is_released_ = false;
};

}  // namespace kvgate::test
