// Device: chooses where the local engine runs, from the configuration and this machine's devices,
// and sets the defaults that depend on it. No other file has such defaults.
//
//                     cpu        cuda
//   kv_memory         1 GiB      nine tenths of the device memory left beside weights,
//                                activations and a reserve (model::DevicePoolBytes)
//   host_memory       none       half of the free RAM, at most 4 times the device's memory
//   step_tokens       512        2048: fewer rows leave a large device idle between weights
//   mixed_step_tokens 256        512: delays a decoding client by some 20 ms
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "gateway/config/config.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda_backend.h"

namespace kvgate::runtime::machine {

// The devices found on this machine.
struct DeviceProbe {
  bool is_cuda_built = false;
  Result<std::vector<kernels::cuda::CudaDevice>> found;
};
DeviceProbe ProbeDevices();

// Returns why `device` cannot be used; empty if it can.
std::string UnusableReason(const kernels::cuda::CudaDevice& device);
// "0: NVIDIA H200, compute capability 9.0, 139.8 GiB (138.9 GiB free)"
std::string DeviceLine(const kernels::cuda::CudaDevice& device);

struct DeviceChoice {
  bool is_cuda = false;
  kernels::cuda::CudaDevice cuda = {};  // the first usable one
  std::string why_cpu = {};             // why auto chose the CPU; else empty
};
// Fails with kUnavailable if cuda is requested but not usable; the detail says why and what to do.
// Fails with kInvalidArgument (field "engine.numerics") if numerics are fast and the engine would
// run on the CPU.
Result<DeviceChoice> ChooseDevice(const config::EngineConfig& engine, const DeviceProbe& probe);

// Fills in the settings that the configuration leaves open. `ram_free`: free bytes of this
// machine's memory; 0: unknown.
void ApplyDeviceDefaults(const DeviceChoice& choice, uint64_t ram_free, config::Config& config);

// Does all of the above; afterwards the device is "cpu" or "cuda". Logs why auto chose the CPU.
Result<void> ResolveDevice(config::Config& config);

// REQUIRES: ResolveDevice has filled in the configuration.
Result<std::unique_ptr<kernels::Backend>> MakeBackend(const config::EngineConfig& engine);

}  // namespace kvgate::runtime::machine
