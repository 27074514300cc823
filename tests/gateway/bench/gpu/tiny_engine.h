// This helper opens an engine with a tiny model on the CPU, for the parts of the benchmark.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "gateway/bench/gpu/device.h"
#include "gateway/bench/gpu/sizes.h"

namespace kvgate::bench::gpu {

inline OpenedEngine OpenTinyEngine(engine::EngineOptions options = {}) {
  const DeviceOptions device{.is_cuda = false, .cpu_threads = 1};
  std::shared_ptr<const modelfile::ModelFile> file =
      *model::MakeModelInMemory(FindSizes("tiny", true)->shape, 1);
  auto loaded = LoadModel(device, std::move(file), 4096);
  EXPECT_TRUE(loaded.has_value()) << loaded.error().ToString();
  options.kv_bytes = uint64_t{32} << 20;
  auto opened = OpenEngine(*std::move(loaded), options, {});
  EXPECT_TRUE(opened.has_value()) << opened.error().ToString();
  return *std::move(opened);
}

}  // namespace kvgate::bench::gpu
