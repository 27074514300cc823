#include "kernels/cuda/device/command_stream.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/device/device.cuh"

namespace kvgate::kernels::cuda::device {
namespace {

struct AddArgument {
  const int* values;
  const int* factors;
  int* sums;
};

void AddKernel(AddArgument argument) {
  const unsigned int i = threadIdx.x;
  argument.sums[i] += argument.values[i] * argument.factors[0];
}

class CommandStreamTest : public testing::Test {
 protected:
  void SetUp() override { Open({.staging_bytes = 4096}); }
  void TearDown() override {
    stream_.reset();
    cudaFree(sums_);
  }
  void Open(const CommandStreamOptions& options) {
    stream_ = std::move(*CommandStream::Open(options));
    if (sums_ == nullptr) cudaMalloc(reinterpret_cast<void**>(&sums_), 32 * sizeof(int));
    stream_->Fill(sums_, 0, 32 * sizeof(int));
  }
  void Step(int value, int factor) {
    const std::vector<int> values(32, value);
    stream_->ReserveStaging(2 * CommandStream::StagedBytes(sizeof(int) * 32));
    const int* staged = stream_->Stage<int>(values);
    const int* staged_factor = stream_->Stage<int>({&factor, 1});
    stream_->Launch(&AddKernel, {.grid = {1}, .threads = 32}, {staged, staged_factor, sums_});
  }

  std::unique_ptr<CommandStream> stream_;
  int* sums_ = nullptr;
};

TEST_F(CommandStreamTest, StagedBytesAreThoseOfTheStepThatStagedThem) {
  stream_->Synchronize();
  int want = 0;
  for (int step = 0; step < 20; ++step) {
    Step(step, 3);
    want += 3 * step;
    stream_->Flush();
  }
  stream_->Synchronize();
  for (int i = 0; i < 32; ++i) EXPECT_EQ(sums_[i], want);
  // Each of the two stagings is first remembered, then launched as a graph.
  EXPECT_EQ(stream_->num_graph_launches(), 18u);
}

TEST_F(CommandStreamTest, OtherCommandsAreNotTakenForAGraph) {
  for (int step = 0; step < 12; ++step) {
    Step(1, 1);
    if (step % 3 == 0) Step(10, 1);
    stream_->Flush();
  }
  stream_->Synchronize();
  EXPECT_EQ(sums_[7], 12 + 40);
}

TEST_F(CommandStreamTest, AStepThatStagesMoreThanThereIsRoomIsFlushedInPieces) {
  for (int i = 0; i < 100; ++i) Step(i, 1);
  stream_->Synchronize();
  EXPECT_EQ(sums_[31], 99 * 100 / 2);
}

TEST_F(CommandStreamTest, GraphsBeyondTheBoundGo) {
  Open({.staging_bytes = 4096, .graphs_max = 2});
  stream_->Synchronize();
  for (int round = 0; round < 3; ++round) {
    for (int length = 1; length <= 4; ++length) {
      for (int i = 0; i < length; ++i) Step(1, 1);
      stream_->Flush();
    }
  }
  stream_->Synchronize();
  EXPECT_EQ(sums_[0], 3 * 10);
}

TEST_F(CommandStreamTest, WithoutGraphsCommandsRunAsTheyCome) {
  Open({.staging_bytes = 4096, .graphs_max = 0});
  for (int step = 0; step < 5; ++step) {
    Step(2, 2);
    stream_->Flush();
  }
  stream_->Synchronize();
  EXPECT_EQ(sums_[0], 20);
  EXPECT_EQ(stream_->num_graph_launches(), 0u);
}

TEST_F(CommandStreamTest, MemoryThatIsNotThereIsAnError) {
  emulator::SetDeviceMemory(1000);
  const auto opened = CommandStream::Open({.staging_bytes = 4096});
  emulator::SetDeviceMemory(size_t{4} << 30);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kOverloaded);
}

}  // namespace
}  // namespace kvgate::kernels::cuda::device
