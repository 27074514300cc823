#include "gateway/runtime/machine/machine_memory.h"

#include <gtest/gtest.h>

namespace kvgate::runtime::machine {
namespace {

TEST(MachineMemoryTest, ThisMachineHasSomeAndNotMoreThanALimit) {
  EXPECT_GT(MemoryLimit(), uint64_t{64} << 20);
  EXPECT_LT(MemoryLimit(), uint64_t{1} << 50);
  EXPECT_GT(AvailableMemory(), 0u);
}

TEST(MachineMemoryTest, AnUnknownSizeBoundsNothing) {
  EXPECT_EQ(LesserKnown(5, 3), 3u);
  EXPECT_EQ(LesserKnown(5, 0), 5u);
  EXPECT_EQ(LesserKnown(0, 3), 3u);
  EXPECT_EQ(LesserKnown(0, 0), 0u);
}

}  // namespace
}  // namespace kvgate::runtime::machine
