#include "gateway/runtime/machine/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "gateway/runtime/machine/machine_memory.h"
#include "kernels/cpu/cpu_backend.h"

namespace kvgate::runtime::machine {
namespace {

using kernels::cuda::CudaDevice;

constexpr int kComputeMajorMin = 8;
constexpr uint64_t kHostMemoryPerDeviceMemory = 4;

std::string GibiBytes(uint64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

// Returns the first usable device, or the reason why there is none.
Result<CudaDevice> FindDevice(const DeviceProbe& probe) {
  const auto none = [](std::string detail) {
    return MakeError(ErrorCode::kUnavailable, "runtime", std::move(detail));
  };
  if (!probe.is_cuda_built) return none("this build has no CUDA backend");
  if (!probe.found) return none(probe.found.error().detail);
  if (probe.found->empty()) return none("no CUDA device was found");
  for (const CudaDevice& device : *probe.found) {
    if (UnusableReason(device).empty()) return device;
  }
  return none(UnusableReason(probe.found->front()));
}

std::string_view AdviceFor(const DeviceProbe& probe) {
  if (!probe.is_cuda_built) {
    return "build kvgate where nvcc is found, or take engine.device auto or cpu";
  }
  return "`kvgate doctor` lists what is there; see to the driver (nvidia-smi), or take "
         "engine.device auto or cpu";
}

}  // namespace

DeviceProbe ProbeDevices() {
  return {.is_cuda_built = kernels::cuda::IsCudaBuilt(), .found = kernels::cuda::FindCudaDevices()};
}

std::string UnusableReason(const CudaDevice& device) {
  if (device.major >= kComputeMajorMin) return "";
  return fmt::format(
      "CUDA device {} ({}) is of compute capability {}.{}, and {}.0 is the oldest "
      "that works",
      device.ordinal, device.name, device.major, device.minor, kComputeMajorMin);
}

std::string DeviceLine(const CudaDevice& device) {
  return fmt::format("{}: {}, compute capability {}.{}, {} ({} free)", device.ordinal, device.name,
                     device.major, device.minor, GibiBytes(device.bytes_total),
                     GibiBytes(device.bytes_free));
}

Result<DeviceChoice> ChooseDevice(const config::EngineConfig& engine, const DeviceProbe& probe) {
  DeviceChoice choice;
  if (engine.device != "cpu") {
    Result<CudaDevice> device = FindDevice(probe);
    if (device) {
      choice.is_cuda = true;
      choice.cuda = std::move(*device);
      return choice;
    }
    if (engine.device == "cuda") {
      return MakeError(
          ErrorCode::kUnavailable, "runtime",
          fmt::format("engine.device is cuda, and {}: {}", device.error().detail, AdviceFor(probe)),
          "engine.device");
    }
    choice.why_cpu = device.error().detail;
  }
  if (engine.numerics != "fast") return choice;
  return MakeError(ErrorCode::kInvalidArgument, "runtime",
                   fmt::format("engine.numerics is fast, which only CUDA has, and the engine would "
                               "run on the CPU{}{}: take invariant",
                               choice.why_cpu.empty() ? "" : ", as ", choice.why_cpu),
                   "engine.numerics");
}

void ApplyDeviceDefaults(const DeviceChoice& choice, uint64_t ram_free, config::Config& config) {
  config::EngineConfig& engine = config.engine;
  const auto fill = [](auto& value, auto otherwise) {
    if (value == 0) value = otherwise;
  };
  engine.device = choice.is_cuda ? "cuda" : "cpu";
  fill(engine.step_tokens, choice.is_cuda ? 2048 : 512);
  fill(engine.mixed_step_tokens, choice.is_cuda ? 512 : 256);
  // On a device the engine sizes the KV memory after it has loaded the weights.
  if (!choice.is_cuda) fill(engine.kv_memory_bytes, uint64_t{1} << 30);
  if (config.cache.host_memory_bytes.has_value()) return;
  config.cache.host_memory_bytes =
      choice.is_cuda ? std::min(ram_free / 2, kHostMemoryPerDeviceMemory * choice.cuda.bytes_total)
                     : 0;
}

Result<void> ResolveDevice(config::Config& config) {
  // Probing takes a while and some device memory, so it is skipped for the CPU.
  const DeviceProbe probe = config.engine.device == "cpu"
                                ? DeviceProbe{.is_cuda_built = false, .found = {}}
                                : ProbeDevices();
  KVGATE_TRY(const DeviceChoice choice, ChooseDevice(config.engine, probe));
  if (!choice.why_cpu.empty()) {
    KVGATE_LOG(kInfo, "runtime", "the engine runs on the CPU: {}", choice.why_cpu);
  } else if (choice.is_cuda) {
    KVGATE_LOG(kInfo, "runtime", "the engine runs on CUDA device {}", DeviceLine(choice.cuda));
  }
  const uint64_t limit = MemoryLimit();
  const uint64_t available = AvailableMemory();
  ApplyDeviceDefaults(choice, limit > 0 ? std::min(limit, available) : available, config);
  config.engine.device_ordinal = choice.cuda.ordinal;
  return {};
}

Result<std::unique_ptr<kernels::Backend>> MakeBackend(const config::EngineConfig& engine) {
  if (engine.device == "cuda") {
    return kernels::cuda::MakeCudaBackend({.device = engine.device_ordinal,
                                           .is_fast = engine.numerics == "fast",
                                           .uses_graphs = true});
  }
  return kernels::cpu::MakeCpuBackend(
      {.num_threads = engine.threads,
       .target = engine.cpu_target == "auto" ? std::string() : engine.cpu_target});
}

}  // namespace kvgate::runtime::machine
