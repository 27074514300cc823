// Tests that the emulated runtime acts like the device's: memory runs out, a capture runs no
// command, and a graph runs the captured commands at each launch.
#include "kernels/cuda/emulator/cuda_runtime.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace {

namespace emulator = kvgate::kernels::cuda::emulator;

TEST(EmulatedRuntimeTest, MemoryStartsAsNanAndRunsOut) {
  emulator::SetDeviceMemory(4096);
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 4000), cudaSuccess);
  EXPECT_TRUE(std::isnan(*static_cast<float*>(memory)));
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, 97), cudaErrorMemoryAllocation);
  size_t bytes_free = 0;
  size_t bytes_total = 0;
  ASSERT_EQ(cudaMemGetInfo(&bytes_free, &bytes_total), cudaSuccess);
  EXPECT_EQ(bytes_free, 96u);
  EXPECT_EQ(bytes_total, 4096u);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);  // freed twice
  EXPECT_EQ(cudaMalloc(&more, 4096), cudaSuccess);
  EXPECT_EQ(cudaFree(more), cudaSuccess);
  emulator::SetDeviceMemory(size_t{4} << 30);
}

TEST(EmulatedRuntimeTest, ACaptureRunsNothingAndItsGraphRunsItEachTime) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  int from = 1;
  int to = 0;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidValue);
  cudaMemcpyAsync(&to, &from, sizeof(int), cudaMemcpyDefault, stream);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(to, 0);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  for (from = 2; from < 5; ++from) {
    ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
    EXPECT_EQ(to, from);
  }
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST(EmulatedRuntimeTest, SharedMemoryBeyondTheDevicesIsRefused) {
  const auto allow = [](int bytes) {
    return cudaFuncSetAttribute(nullptr, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  };
  EXPECT_EQ(allow(227 << 10), cudaSuccess);
  EXPECT_EQ(allow((227 << 10) + 1), cudaErrorInvalidValue);
}

TEST(EmulatedRuntimeTest, WaitsLaunchesAndGraphsAreCounted) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  const emulator::Counts before = emulator::CurrentCounts();
  const auto launch = [&] {
    int argument = 0;
    EXPECT_EQ(emulator::LaunchKernel(
                  nullptr, [](const void*, const void*) {}, {1, 1, 1}, 32, 0, &argument,
                  sizeof(argument), stream),
              cudaSuccess);
  };
  launch();
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  launch();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  EXPECT_EQ(emulator::CurrentCounts().num_waits, before.num_waits);
  ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  const emulator::Counts after = emulator::CurrentCounts();
  EXPECT_EQ(after.num_launches, before.num_launches + 1);
  EXPECT_EQ(after.num_graphs, before.num_graphs + 1);
  EXPECT_EQ(after.num_waits, before.num_waits + 1);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

}  // namespace
