// The part of the CUDA runtime API that kernels/cuda uses, under its original names, implemented on
// host memory and BlockRunner. Streams execute work at once, so events are always complete; a
// stream that captures records its work in a graph instead. Device memory starts as NaN and is
// limited, so that running out of it can be tested.
// Source of the contract: CUDA Runtime API, 13.0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/emulator/block_runner.h"

namespace kvgate::kernels::cuda::emulator {

// Sets the bytes of device memory; initially 4 GiB. Existing allocations stay.
void SetDeviceMemory(size_t bytes);

struct Stream;
struct Event;
struct Graph;
struct GraphExec;

}  // namespace kvgate::kernels::cuda::emulator

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorNotReady = 600,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
inline constexpr unsigned int cudaStreamNonBlocking = 1;
inline constexpr unsigned int cudaEventDefault = 0;
inline constexpr unsigned int cudaEventDisableTiming = 2;
inline constexpr unsigned int cudaHostAllocDefault = 0;
inline constexpr unsigned int cudaHostRegisterDefault = 0;

using cudaStream_t = kvgate::kernels::cuda::emulator::Stream*;
using cudaEvent_t = kvgate::kernels::cuda::emulator::Event*;
using cudaGraph_t = kvgate::kernels::cuda::emulator::Graph*;
using cudaGraphExec_t = kvgate::kernels::cuda::emulator::GraphExec*;

struct cudaDeviceProp {
  char name[256];
  int major;
  int minor;
  int multiProcessorCount;
  size_t totalGlobalMem;
  size_t sharedMemPerBlockOptin;
  int l2CacheSize;
};

struct cudaFuncAttributes {
  int numRegs;
};

struct dim3 {
  unsigned int x = 1, y = 1, z = 1;
  dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1) : x(x_), y(y_), z(z_) {}
};

const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes);
cudaError_t cudaDeviceSynchronize();

cudaError_t cudaMalloc(void** memory, size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned int flags);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned int flags);
cudaError_t cudaHostUnregister(void* memory);
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemset(void* memory, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel);

namespace kvgate::kernels::cuda::emulator {

// The emulated machine: the result of asking for the number of devices, the driver version (0 means
// no driver), and the compute capability of the one device. Initially one device of 9.0.
struct Machine {
  cudaError_t count_error = cudaSuccess;
  int driver_version = 13000;
  int major = 9;
  int minor = 0;
  cudaError_t image_error = cudaSuccess;  // returned by cudaFuncGetAttributes
};
void SetMachine(const Machine& machine);

// Counts of device calls since the process started.
struct Counts {
  uint64_t num_waits = 0;     // waits of the host for streams or the device
  uint64_t num_launches = 0;  // kernels launched without a graph
  uint64_t num_graphs = 0;    // graph launches
};
Counts CurrentCounts();

// cudaLaunchKernel for a kernel with one argument of argument_bytes, which is copied; it calls
// invoke(kernel, argument).
using KernelInvoke = void (*)(const void* kernel, const void* argument);
cudaError_t LaunchKernel(const void* kernel, KernelInvoke invoke, Extent3 grid,
                         unsigned int block_threads, size_t shared_bytes, const void* argument,
                         size_t argument_bytes, cudaStream_t stream);

}  // namespace kvgate::kernels::cuda::emulator
