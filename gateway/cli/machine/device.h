// Device: where the local engine runs, from the configuration and what this machine has, and the
// defaults that depend on it: here and nowhere else.
//
//                     cpu        cuda
//   kv_memory         1 GiB      what the device has left beside weights and activations, less a
//                                reserve, nine tenths (model::DevicePoolBytes)
//   host_memory       none       half of the RAM that is free, at most 4 times the device's memory
//   step_tokens       512        2048: fewer rows leave a large device idle between weights
//   mixed_step_tokens 256        512: some 20 ms that a decoding client waits
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <kvgate/result.h>

#include "gateway/config/config.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda_backend.h"

namespace kvgate::cli {

// What there is.
struct DeviceProbe {
  bool is_cuda_built = false;
  Result<std::vector<kernels::cuda::CudaDevice>> found;
};
DeviceProbe ProbeDevices();

// Why `device` cannot be used; empty: it can.
std::string UnusableReason(const kernels::cuda::CudaDevice& device);
// "0: NVIDIA H200, compute capability 9.0, 139.8 GiB (138.9 GiB free)"
std::string DeviceLine(const kernels::cuda::CudaDevice& device);

struct DeviceChoice {
  bool is_cuda = false;
  kernels::cuda::CudaDevice cuda = {};  // the first usable one
  std::string why_cpu = {};             // where auto has come to it
};
// kUnavailable: cuda is asked for and not to be had; detail says why and what to do.
// kInvalidArgument (field "engine.numerics"): fast numerics, and the engine would run on the CPU.
Result<DeviceChoice> ChooseDevice(const config::EngineConfig& engine, const DeviceProbe& probe);

// Fills in what the configuration leaves open. `ram_free`: bytes of this machine's memory; 0: not
// known.
void ApplyDeviceDefaults(const DeviceChoice& choice, uint64_t ram_free, config::Config& config);

// All of the above: the device is "cpu" or "cuda" afterwards. Says in the log why auto is the CPU.
Result<void> ResolveDevice(config::Config& config);

// Of a resolved configuration.
Result<std::unique_ptr<kernels::Backend>> MakeBackend(const config::EngineConfig& engine);

}  // namespace kvgate::cli
