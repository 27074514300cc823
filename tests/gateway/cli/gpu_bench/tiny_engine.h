// An engine with a tiny model on the CPU, for the benchmark's parts.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "gateway/cli/gpu_bench/device.h"
#include "gateway/cli/gpu_bench/sizes.h"

namespace kvgate::cli::gpu_bench {

inline OpenedEngine OpenTinyEngine(engine::EngineOptions options = {}) {
  const DeviceOptions device{.is_cuda = false, .cpu_threads = 1};
  std::shared_ptr<const model::ModelFile> file =
      *model::MakeModelInMemory(FindSizes("tiny", true)->shape, 1);
  auto loaded = LoadModel(device, std::move(file), 4096);
  EXPECT_TRUE(loaded.has_value()) << loaded.error().ToString();
  options.kv_bytes = uint64_t{32} << 20;
  auto opened = OpenEngine(*std::move(loaded), options, {});
  EXPECT_TRUE(opened.has_value()) << opened.error().ToString();
  return *std::move(opened);
}

}  // namespace kvgate::cli::gpu_bench
