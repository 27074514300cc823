#include "kernels/cuda/matmul/wgmma_self_test.h"

#include <gtest/gtest.h>

namespace kvgate::kernels::cuda::matmul {
namespace {

class WgmmaSelfTestTest : public testing::Test {
 protected:
  void TearDown() override {
    emulator::SetWarpgroupsRound(false);
    emulator::SetDeviceMemory(size_t{4} << 30);
  }
  std::unique_ptr<device::CommandStream> stream_ =
      std::move(*device::CommandStream::Open({.staging_bytes = 4096}));
};

TEST_F(WgmmaSelfTestTest, InstructionsThatAddAlikeAreFoundAlike) {
  const auto add_alike = WarpgroupsAddAlike(*stream_);
  ASSERT_TRUE(add_alike.has_value());
  EXPECT_TRUE(*add_alike);
}

TEST_F(WgmmaSelfTestTest, OneThatRoundsOnItsWayIsFound) {
  emulator::SetWarpgroupsRound(true);
  const auto add_alike = WarpgroupsAddAlike(*stream_);
  ASSERT_TRUE(add_alike.has_value());
  EXPECT_FALSE(*add_alike);
}

TEST_F(WgmmaSelfTestTest, MemoryThatIsNotThereIsAnError) {
  emulator::SetDeviceMemory(100000);
  const auto add_alike = WarpgroupsAddAlike(*stream_);
  ASSERT_FALSE(add_alike.has_value());
  EXPECT_EQ(add_alike.error().code, ErrorCode::kOverloaded);
}

}  // namespace
}  // namespace kvgate::kernels::cuda::matmul
