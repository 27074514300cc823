#include "kernels/cuda/emulator/fiber.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvgate::kernels::cuda::emulator {
namespace {

TEST(FiberTest, ItGoesOnWhereItStopped) {
  Fiber fiber;
  std::vector<int> seen;
  fiber.Start([&] {
    for (int i = 0; i < 3; ++i) {
      seen.push_back(i);
      fiber.Suspend();
    }
  });
  EXPECT_TRUE(seen.empty());
  for (size_t count = 1; count <= 3; ++count) {
    fiber.Resume();
    EXPECT_EQ(seen.size(), count);
    EXPECT_FALSE(fiber.has_ended());
  }
  fiber.Resume();
  EXPECT_TRUE(fiber.has_ended());
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2}));
}

TEST(FiberTest, ManyTakeTurnsAndKeepTheirOwnVariables) {
  constexpr int kCount = 40;
  std::vector<Fiber> fibers(kCount);
  std::vector<int> sums(kCount);
  for (int round = 0; round < 2; ++round) {  // a fiber runs again after its end
    for (int i = 0; i < kCount; ++i) {
      fibers[static_cast<size_t>(i)].Start([&, i] {
        int sum = 0;
        for (int step = 0; step < 10; ++step) {
          sum += i;
          fibers[static_cast<size_t>(i)].Suspend();
        }
        sums[static_cast<size_t>(i)] += sum;
      });
    }
    for (int step = 0; step <= 10; ++step) {
      for (Fiber& fiber : fibers) fiber.Resume();
    }
  }
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(sums[static_cast<size_t>(i)], 20 * i);
}

TEST(FiberDeathTest, AnEndedOneIsNotResumed) {
  Fiber fiber;
  EXPECT_DEATH(fiber.Resume(), "has ended");
}

}  // namespace
}  // namespace kvgate::kernels::cuda::emulator
