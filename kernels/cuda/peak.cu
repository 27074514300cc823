#include "kernels/cuda/peak.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>

#include "kernels/cuda/device/command_stream.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/device/device_error.h"
#include "kernels/cuda/matmul/cublas_lt.h"
#include "kernels/cuda/memory/device_memory.h"

namespace kvgate::kernels::cuda {

using device::CheckDevice;
using device::CommandStream;
using device::Vector16;
using memory::DeviceMemory;

namespace {

#if KVGATE_CUDA_EMULATED
// In the emulator the measurement only shows that the code runs.
constexpr size_t kCopyBytes = size_t{1} << 16;
constexpr size_t kTransferBytes = size_t{1} << 16;
constexpr int kRounds = 2;
constexpr int kBlocksPerMultiprocessor = 1;
#else
constexpr size_t kCopyBytes = size_t{1} << 29;  // read and written
constexpr size_t kTransferBytes = size_t{1} << 28;
constexpr int kRounds = 2048;
constexpr int kBlocksPerMultiprocessor = 4;
#endif
constexpr int kPasses = 6;              // the first one also wakes the device up
constexpr int64_t kMatrixSize = 8192;   // of cublasLt's product: larger than every tile and cache
constexpr unsigned int kThreads = 256;  // of the kernels in this file

struct CopyArgument {
  const Vector16* from;
  Vector16* to;
  uint64_t count;
};

// Each thread keeps four 16-byte loads in flight, like the row kernels.
KVGATE_KERNEL void CopyKernel(CopyArgument a) {
  constexpr int kAtOnce = 4;
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < a.count;
       i += kAtOnce * stride) {
    Vector16 values[kAtOnce];
    KVGATE_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      if (i + j * stride < a.count) values[j] = device::LoadOnce(a.from + i + j * stride);
    }
    KVGATE_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      if (i + j * stride < a.count) a.to[i + j * stride] = values[j];
    }
  }
}

struct MmaArgument {
  float* sink;  // never written, but the compiler cannot know that
  uint64_t rounds;
};

constexpr int kChains = 4;  // independent chains of matrix instructions

KVGATE_KERNEL void MmaKernel(MmaArgument a) {
  float sums[kChains][4] = {};
  const uint32_t one = device::FloatsToHalf2(0.5f, static_cast<float>(threadIdx.x) * 0x1p-10f);
  const uint32_t left[4] = {one, one ^ 1, one ^ 2, one ^ 3};
  const uint32_t right[2] = {one, one ^ 5};
  KVGATE_NO_UNROLL
  for (uint64_t round = 0; round < a.rounds; ++round) {
    KVGATE_UNROLL
    for (int chain = 0; chain < kChains; ++chain) device::MmaHalf(sums[chain], left, right);
  }
  float total = 0;
  for (const auto& sum : sums) total += sum[0] + sum[1] + sum[2] + sum[3];
  if (total == -1.0f) *a.sink = total;
}

// Fills memory with random f16 bits in [1, 2) with either sign. Multiplying zeros would take less
// power, so the device would run at a higher clock.
struct RandomArgument {
  uint32_t* words;  // two values per word
  uint64_t count;
};

KVGATE_KERNEL void RandomKernel(RandomArgument a) {
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < a.count;
       i += uint64_t{gridDim.x} * blockDim.x) {
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;  // splitmix64
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    a.words[i] = (static_cast<uint32_t>(z >> 32) & 0x83ff83ffu) | 0x3c003c00u;
  }
}

int NumMultiprocessors() {
  int device = 0;
  cudaDeviceProp properties{};
  CheckDevice(cudaGetDevice(&device), "ask for the current device");
  CheckDevice(cudaGetDeviceProperties(&properties, device), "ask a device");
  return properties.multiProcessorCount;
}

dim3 GridOf(int per_multiprocessor) {
  return dim3(static_cast<unsigned int>(NumMultiprocessors() * per_multiprocessor));
}

// Returns the shortest time in seconds of several runs of the commands that `note` records.
double BestSeconds(CommandStream& stream, const std::function<void()>& note) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  CheckDevice(cudaEventCreateWithFlags(&begin, cudaEventDefault), "make an event");
  CheckDevice(cudaEventCreateWithFlags(&end, cudaEventDefault), "make an event");
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    CheckDevice(cudaEventRecord(begin, stream.stream()), "measure");
    note();
    stream.Flush();
    CheckDevice(cudaEventRecord(end, stream.stream()), "measure");
    stream.Synchronize();
    float milliseconds = 0;
    CheckDevice(cudaEventElapsedTime(&milliseconds, begin, end), "measure");
    const double seconds = std::max(1e-9, static_cast<double>(milliseconds) * 1e-3);
    best = pass == 0 ? seconds : std::min(best, seconds);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return best;
}

std::unique_ptr<CommandStream> OpenStream() {
  auto stream = CommandStream::Open({.staging_bytes = 4096, .graphs_max = 0});
  return stream ? std::move(*stream) : nullptr;
}

double MeasureTransfers(cudaMemcpyKind kind) {
  const auto stream = OpenStream();
  const auto device = DeviceMemory::Allocate(kTransferBytes, "measurement");
  const auto host = memory::PinnedMemory::Allocate(kTransferBytes, "measurement");
  if (stream == nullptr || !device || !host) return 0;
  const bool is_upload = kind == cudaMemcpyHostToDevice;
  const double seconds = BestSeconds(*stream, [&] {
    CheckDevice(cudaMemcpyAsync(is_upload ? device->data() : host->data(),
                                is_upload ? host->data() : device->data(), kTransferBytes, kind,
                                stream->stream()),
                "measure a copy");
  });
  return static_cast<double>(kTransferBytes) / seconds;
}

// Returns 0 if cublasLt is not available.
double MeasureCublas(CommandStream& stream) {
  const auto library = matmul::CublasLt::Open(stream);
  if (!library) return 0;
  constexpr size_t kValues = static_cast<size_t>(kMatrixSize) * kMatrixSize;
  const auto halves = DeviceMemory::Allocate(2 * kValues * sizeof(uint16_t), "measurement");
  const auto sums = DeviceMemory::Allocate(kValues * sizeof(float), "measurement");
  if (!halves || !sums) return 0;
  stream.Launch(&RandomKernel, {.grid = GridOf(8), .threads = kThreads},
                {reinterpret_cast<uint32_t*>(halves->data()), kValues});
  const double seconds = BestSeconds(stream, [&] {
    (*library)->Note({.weight = halves->data(),
                      .x = halves->data() + kValues * sizeof(uint16_t),
                      .sums = reinterpret_cast<float*>(sums->data()),
                      .num_rows = kMatrixSize,
                      .num_outputs = kMatrixSize,
                      .columns = kMatrixSize,
                      .x_row_columns = kMatrixSize});
  });
  return 2.0 * static_cast<double>(kValues) * static_cast<double>(kMatrixSize) / seconds;
}

double MeasureMma(CommandStream& stream) {
  const dim3 grid = GridOf(kBlocksPerMultiprocessor);
  const double seconds = BestSeconds(stream, [&] {
    stream.Launch(&MmaKernel, {.grid = grid, .threads = kThreads},
                  {nullptr, static_cast<uint64_t>(kRounds)});
  });
  constexpr double kOperations = 2.0 * 16 * 8 * 16;
  return kOperations * kChains * kRounds * (kThreads / device::kWarpLanes) * grid.x / seconds;
}

double MeasureCopyBandwidth() {
  const auto stream = OpenStream();
  const auto from = DeviceMemory::Allocate(kCopyBytes, "measurement");
  const auto to = DeviceMemory::Allocate(kCopyBytes, "measurement");
  if (stream == nullptr || !from || !to) return 0;
  const CopyArgument argument{reinterpret_cast<const Vector16*>(from->data()),
                              reinterpret_cast<Vector16*>(to->data()),
                              kCopyBytes / sizeof(Vector16)};
  const dim3 grid = GridOf(8);
  const double kernel = BestSeconds(
      *stream, [&] { stream->Launch(&CopyKernel, {.grid = grid, .threads = kThreads}, argument); });
  const double copy =
      BestSeconds(*stream, [&] { stream->Copy(to->data(), from->data(), kCopyBytes); });
  return 2.0 * static_cast<double>(kCopyBytes) / std::min(kernel, copy);
}

}  // namespace

Result<DeviceLimits> MeasureDeviceLimits(int device) {
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) {
    cudaGetLastError();  // clears the error, so that the next call does not report it
    Error failure = device::DeviceError(error, "choose the device to measure");
    failure.code = ErrorCode::kUnavailable;
    return failure;
  }
  const auto stream = OpenStream();
  if (stream == nullptr) return DeviceLimits{};
  DeviceLimits limits = {
      .copy_bytes_per_second = MeasureCopyBandwidth(),
      .host_to_device_bytes_per_second = MeasureTransfers(cudaMemcpyHostToDevice),
      .device_to_host_bytes_per_second = MeasureTransfers(cudaMemcpyDeviceToHost),
      .half_flops_per_second = MeasureCublas(*stream)};
  limits.is_cublas = limits.half_flops_per_second > 0;
  if (!limits.is_cublas) limits.half_flops_per_second = MeasureMma(*stream);
  return limits;
}

}  // namespace kvgate::kernels::cuda
