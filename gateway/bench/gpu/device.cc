#include "gateway/bench/gpu/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/peak.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/peak.h"

namespace kvgate::bench::gpu {
namespace {

constexpr int kOrdinal = 0;  // of the device; CUDA_VISIBLE_DEVICES selects another

int CpuThreads(const DeviceOptions& options) {
  if (options.cpu_threads > 0) return options.cpu_threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

Result<kernels::cuda::CudaDevice> FindDevice() {
  KVGATE_TRY(const std::vector<kernels::cuda::CudaDevice> devices,
             kernels::cuda::FindCudaDevices());
  if (!devices.empty()) return devices.front();
  return MakeError(ErrorCode::kUnavailable, "bench",
                   kernels::cuda::IsCudaBuilt()
                       ? "this machine has no CUDA device; --device cpu runs without one"
                       : "this build has no CUDA backend; --device cpu runs without one");
}

// Uses one thread, as a load from the host arena does on the CPU.
double MeasureHostCopy() {
  constexpr size_t kBytes = size_t{128} << 20;
  std::vector<std::byte> from(kBytes, std::byte{1});
  std::vector<std::byte> to(kBytes, std::byte{2});
  double best = 0;
  for (int pass = 0; pass < 4; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    std::memcpy(to.data(), from.data(), kBytes);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    best = std::max(best, static_cast<double>(kBytes) / seconds.count());
    // Uses the copy, so that it is not optimized away.
    from[static_cast<size_t>(pass)] = to[kBytes - 1];
  }
  return best;
}

}  // namespace

Result<std::unique_ptr<kernels::Backend>> OpenBackend(const DeviceOptions& options) {
  if (options.is_cuda) {
    return kernels::cuda::MakeCudaBackend({.device = kOrdinal, .is_fast = options.is_fast});
  }
  if (options.is_fast) {
    return MakeError(ErrorCode::kUnsupported, "bench", "the CPU has no other numerics");
  }
  return kernels::cpu::MakeCpuBackend({.num_threads = options.cpu_threads, .target = ""});
}

Result<std::string> DescribeDevice(const DeviceOptions& options) {
  if (!options.is_cuda) {
    return fmt::format("CPU, {}, {} threads", kernels::cpu::SupportedCpuTargets().front(),
                       CpuThreads(options));
  }
  KVGATE_TRY(const kernels::cuda::CudaDevice device, FindDevice());
  KVGATE_TRY(const std::unique_ptr<kernels::Backend> backend, OpenBackend(options));
  return fmt::format(
      "{}, compute capability {}.{}, {} multiprocessors, {:.1f} GiB, {:.1f} free; kernels for {}",
      device.name, device.major, device.minor, device.num_multiprocessors,
      static_cast<double>(device.bytes_total) / (1 << 30),
      static_cast<double>(device.bytes_free) / (1 << 30), backend->Info().target);
}

Result<Limits> MeasureLimits(const DeviceOptions& options) {
  if (options.is_cuda) {
    KVGATE_TRY(const kernels::cuda::DeviceLimits limits,
               kernels::cuda::MeasureDeviceLimits(kOrdinal));
    return Limits{.read_bytes_per_second = limits.copy_bytes_per_second,
                  .host_to_device_bytes_per_second = limits.host_to_device_bytes_per_second,
                  .device_to_host_bytes_per_second = limits.device_to_host_bytes_per_second,
                  .operations_per_second = limits.half_flops_per_second};
  }
  const int threads = CpuThreads(options);
  const double copy = MeasureHostCopy();
  return Limits{.read_bytes_per_second = kernels::cpu::MeasureReadBandwidth(threads),
                .host_to_device_bytes_per_second = copy,
                .device_to_host_bytes_per_second = copy,
                .operations_per_second = kernels::cpu::MeasureFmaPeak(threads)};
}

Result<LoadedModel> LoadModel(const DeviceOptions& options,
                              std::shared_ptr<const modelfile::ModelFile> file,
                              int context_tokens) {
  LoadedModel loaded;
  loaded.file = std::move(file);
  KVGATE_TRY(loaded.backend, OpenBackend(options));
  KVGATE_TRY(loaded.tokenizer, tokenizer::Tokenizer::Load(*loaded.file));
  KVGATE_TRY(loaded.model,
             model::Model::Load(loaded.file, *loaded.backend,
                                {.context_tokens = context_tokens, .one_kv_group = false}));
  return loaded;
}

Result<OpenedEngine> OpenEngine(LoadedModel loaded, engine::EngineOptions options,
                                const DiskOptions& disk) {
  OpenedEngine opened;
  opened.backend = std::move(loaded.backend);
  opened.file = std::move(loaded.file);
  opened.tokenizer = std::move(loaded.tokenizer);
  if (!disk.directory.empty()) {
    KVGATE_TRY(opened.directory,
               store::DataDirectory::Open({.directory = disk.directory,
                                           .kv_bytes_max = std::max<uint64_t>(disk.bytes_max, 1)}));
    options.hash_seed = opened.directory->hash_seed();
  }
  store::kv::KvStore* const kv = opened.directory ? &opened.directory->kv() : nullptr;
  KVGATE_TRY(opened.engine, engine::Engine::Open(options, std::move(loaded.model), *opened.backend,
                                                 *opened.tokenizer, kv));
  return opened;
}

}  // namespace kvgate::bench::gpu
