// Device: the benchmark's backend, the backend's limits, and a model and an engine on it. The CPU
// stands in for a device on machines without one, with limits of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/model/model.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "kernels/backend.h"
#include "store/rocks_data_directory.h"

namespace kvgate::bench::gpu {

struct DeviceOptions {
  bool is_cuda = true;
  int cpu_threads = 0;   // 0: one per hardware thread
  bool is_fast = false;  // the device's fast numerics: kernels/cuda/cuda_backend.h
};

// Fails with kUnavailable or kUnsupported as MakeCudaBackend does.
Result<std::unique_ptr<kernels::Backend>> OpenBackend(const DeviceOptions& options);
// "NVIDIA H200, 132 multiprocessors, 139.8 GiB".
Result<std::string> DescribeDevice(const DeviceOptions& options);

// Upper bounds for the figures, measured in this run. On the CPU, main memory is read, copying to
// "the device" is a copy within it, and operations are f32.
struct Limits {
  double read_bytes_per_second = 0;  // of device memory
  double host_to_device_bytes_per_second = 0;
  double device_to_host_bytes_per_second = 0;
  double operations_per_second = 0;  // of matrix products; a multiply-add counts as two
};
Result<Limits> MeasureLimits(const DeviceOptions& options);

// A model on the device, with the file that it uses.
struct LoadedModel {
  std::unique_ptr<kernels::Backend> backend;
  std::shared_ptr<const modelfile::ModelFile> file;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  std::unique_ptr<model::Model> model;  // last: it uses the others
};
Result<LoadedModel> LoadModel(const DeviceOptions& options,
                              std::shared_ptr<const modelfile::ModelFile> file, int context_tokens);

// An engine with the objects that it uses.
struct OpenedEngine {
  std::unique_ptr<kernels::Backend> backend;
  std::shared_ptr<const modelfile::ModelFile> file;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  std::unique_ptr<store::DataDirectory> directory;  // null: no disk tier
  std::unique_ptr<engine::Engine> engine;

  const model::ModelConfig& config() const { return engine->info().model; }
  double kv_token_bytes() const {
    return static_cast<double>(engine->info().kv_block_bytes) / kernels::kKvBlockTokens;
  }
};
// The disk tier of an engine; an empty directory means none.
struct DiskOptions {
  std::filesystem::path directory;
  uint64_t bytes_max = 0;
};
Result<OpenedEngine> OpenEngine(LoadedModel loaded, engine::EngineOptions options,
                                const DiskOptions& disk);

}  // namespace kvgate::bench::gpu
