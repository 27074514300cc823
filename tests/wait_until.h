// WaitUntil: how a test waits for another thread or process. Every wait has an end, and a failure
// says what was awaited.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string_view>
#include <thread>

namespace kvgate::test {

// Looks every millisecond until `condition` holds. The limit only keeps a test that fails from
// hanging: no test is right because of it, so it is far above what a busy machine needs.
//   EXPECT_TRUE(test::WaitUntil([&] { return meta.num_batches == 1; }, "a batch is written"));
inline testing::AssertionResult WaitUntil(
    const std::function<bool()>& condition, std::string_view what,
    std::chrono::milliseconds limit = std::chrono::seconds(30)) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return testing::AssertionFailure() << "not within " << limit.count() << " ms: " << what;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return testing::AssertionSuccess();
}

}  // namespace kvgate::test
