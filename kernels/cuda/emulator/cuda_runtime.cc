#include "kernels/cuda/emulator/cuda_runtime.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "base/check.h"

namespace kvgate::kernels::cuda::emulator {

using Work = std::vector<std::function<void()>>;

struct Stream {
  bool is_capturing = false;
  Work captured;
};
struct Event {
  std::chrono::steady_clock::time_point time;
};
struct Graph {
  Work work;
};
struct GraphExec {
  Work work;
};

namespace {

constexpr size_t kAlignment = 256;  // guaranteed by cudaMalloc

// Device memory: its limit, and the sizes of the allocated blocks.
struct DeviceMemory {
  std::mutex mutex;
  size_t bytes_max = size_t{4} << 30;
  size_t bytes_used = 0;
  std::map<void*, size_t> blocks;
};

DeviceMemory& Device() {
  static DeviceMemory memory;
  return memory;
}

Machine& CurrentMachine() {
  static Machine machine;
  return machine;
}

struct AtomicCounts {
  std::atomic<uint64_t> num_waits = 0;
  std::atomic<uint64_t> num_launches = 0;
  std::atomic<uint64_t> num_graphs = 0;
};

AtomicCounts& AllCounts() {
  static AtomicCounts counts;
  return counts;
}

cudaError_t Issue(Stream* stream, std::function<void()> work) {
  if (stream != nullptr && stream->is_capturing) {
    stream->captured.push_back(std::move(work));
  } else {
    work();
  }
  return cudaSuccess;
}

}  // namespace

void SetDeviceMemory(size_t bytes) {
  const std::lock_guard lock(Device().mutex);
  Device().bytes_max = bytes;
}

void SetMachine(const Machine& machine) { CurrentMachine() = machine; }

Counts CurrentCounts() {
  const AtomicCounts& counts = AllCounts();
  return {.num_waits = counts.num_waits,
          .num_launches = counts.num_launches,
          .num_graphs = counts.num_graphs};
}

cudaError_t LaunchKernel(const void* kernel, KernelInvoke invoke, Extent3 grid,
                         unsigned int block_threads, size_t shared_bytes, const void* argument,
                         size_t argument_bytes, cudaStream_t stream) {
  const auto* begin = static_cast<const std::byte*>(argument);
  // Aligned for any argument type, like the copy of a real launch.
  std::vector<std::max_align_t> copy((argument_bytes + sizeof(std::max_align_t) - 1) /
                                     sizeof(std::max_align_t));
  std::memcpy(copy.data(), begin, argument_bytes);
  if (stream == nullptr || !stream->is_capturing) ++AllCounts().num_launches;
  return Issue(stream, [=, copy = std::move(copy)] {
    RunGrid(grid, block_threads, shared_bytes, [&] { invoke(kernel, copy.data()); });
  });
}

}  // namespace kvgate::kernels::cuda::emulator

namespace {

namespace emulator = kvgate::kernels::cuda::emulator;

std::byte* Allocate(size_t bytes) {
  constexpr size_t kBytesMax = size_t{1} << 40;  // sanitizers end the process beyond it
  if (bytes > kBytesMax) return nullptr;
  const size_t rounded =
      (bytes + emulator::kAlignment - 1) / emulator::kAlignment * emulator::kAlignment;
  return static_cast<std::byte*>(std::aligned_alloc(emulator::kAlignment, rounded));
}

}  // namespace

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorNoKernelImageForDevice:
      return "no kernel image is available for execution on the device";
    case cudaErrorNotReady:
      return "device not ready";
  }
  return "unknown error";
}

cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaGetDeviceCount(int* count) {
  const cudaError_t error = emulator::CurrentMachine().count_error;
  *count = error == cudaSuccess ? 1 : 0;
  return error;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = emulator::CurrentMachine().driver_version;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidValue; }

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return cudaErrorInvalidValue;
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "emulated");
  properties->major = emulator::CurrentMachine().major;
  properties->minor = emulator::CurrentMachine().minor;
  properties->multiProcessorCount = 4;
  properties->totalGlobalMem = emulator::Device().bytes_max;
  properties->sharedMemPerBlockOptin = 227 << 10;
  properties->l2CacheSize = 1 << 20;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  emulator::DeviceMemory& device = emulator::Device();
  const std::lock_guard lock(device.mutex);
  *total_bytes = device.bytes_max;
  *free_bytes = device.bytes_max - std::min(device.bytes_max, device.bytes_used);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  ++emulator::AllCounts().num_waits;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  emulator::DeviceMemory& device = emulator::Device();
  const std::lock_guard lock(device.mutex);
  if (bytes > device.bytes_max || device.bytes_used > device.bytes_max - bytes) {
    return cudaErrorMemoryAllocation;
  }
  std::byte* allocated = Allocate(bytes);
  if (allocated == nullptr) return cudaErrorMemoryAllocation;
  std::memset(allocated, 0xff, bytes);
  device.bytes_used += bytes;
  device.blocks[allocated] = bytes;
  *memory = allocated;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  emulator::DeviceMemory& device = emulator::Device();
  const std::lock_guard lock(device.mutex);
  const auto found = device.blocks.find(memory);
  if (found == device.blocks.end()) return cudaErrorInvalidValue;
  device.bytes_used -= found->second;
  device.blocks.erase(found);
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned int) {
  *memory = Allocate(bytes);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned int) {
  return memory != nullptr && bytes != 0 ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaHostUnregister(void*) { return cudaSuccess; }

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  ++emulator::AllCounts().num_waits;
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return emulator::Issue(stream, [=] { std::memcpy(to, from, bytes); });
}

cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  return emulator::Issue(stream, [=] { std::memset(memory, value, bytes); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int) {
  *stream = new emulator::Stream;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  ++emulator::AllCounts().num_waits;
  return stream != nullptr && stream->is_capturing ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned int) { return cudaSuccess; }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  *event = new emulator::Event;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  event->time = std::chrono::steady_clock::now();
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }

cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream == nullptr || stream->is_capturing) return cudaErrorInvalidValue;
  stream->is_capturing = true;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (!stream->is_capturing) return cudaErrorInvalidValue;
  stream->is_capturing = false;
  *graph = new emulator::Graph{std::move(stream->captured)};
  stream->captured.clear();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new emulator::GraphExec{graph->work};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t) {
  ++emulator::AllCounts().num_graphs;
  for (const auto& work : exec->work) work();
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int value) {
  return value <= (227 << 10) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  return emulator::CurrentMachine().image_error;
}
