#include "base/memory_fence.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace kvgate {
namespace {

TEST(MemoryFenceTest, WhatMustNotBeLostIsTriedUntilThereIsMemory) {
  int num_calls = 0;
  Insist([&] {
    if (++num_calls < 3) throw std::bad_alloc();
  });
  EXPECT_EQ(num_calls, 3);
}

TEST(MemoryFenceTest, WhatIsAttemptedEndsNothingWhereItFails) {
  EXPECT_TRUE(Attempt("test", "work", [] {}));
  EXPECT_FALSE(Attempt("test", "work", [] { throw std::bad_alloc(); }));
  EXPECT_FALSE(Attempt("test", "work", [] { throw std::runtime_error("no"); }));
}

TEST(MemoryFenceTest, OtherFailuresAreTheCallers) {
  int num_calls = 0;
  const auto fail = [&] {
    ++num_calls;
    throw std::runtime_error("no");
  };
  EXPECT_THROW(Insist(fail), std::runtime_error);
  EXPECT_EQ(num_calls, 1);
}

}  // namespace
}  // namespace kvgate
