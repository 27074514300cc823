#include "gateway/cli/machine/machine_memory.h"

#include <gtest/gtest.h>

namespace kvgate::cli {
namespace {

TEST(MachineMemoryTest, ThisMachineHasSomeAndNotMoreThanALimit) {
  EXPECT_GT(MemoryLimit(), uint64_t{64} << 20);
  EXPECT_LT(MemoryLimit(), uint64_t{1} << 50);
  EXPECT_GT(AvailableMemory(), 0u);
}

}  // namespace
}  // namespace kvgate::cli
