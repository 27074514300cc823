// A model file that is made and loaded in a few milliseconds, and a configuration that serves it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#include "engine/model/make_model.h"
#include "gateway/config/config.h"

namespace kvgate::test {

inline Result<void> MakeTinyModel(const std::filesystem::path& path, int context) {
  return model::MakeModel({.architecture = "llama",
                           .num_layers = 1,
                           .hidden_dim = 64,
                           .num_heads = 2,
                           .num_kv_heads = 1,
                           .ffn_dim = 64,
                           .vocab_size = 512,
                           .context_length = context,
                           .dtype = kernels::DType::kF16,
                           .seed = 1,
                           .name = "tiny"},
                          path);
}

// Writes a model into `folder` and returns a configuration with that folder's data directory.
inline config::Config TinyConfig(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "tiny.gguf";
  const auto made = MakeTinyModel(path, 256);
  EXPECT_TRUE(made) << made.error().ToString();
  config::Config config;
  config.engine.model = path.string();
  config.engine.device = "cpu";
  config.engine.threads = 1;
  config.engine.kv_memory_bytes = uint64_t{16} << 20;
  config.store.data_dir = (folder / "data").string();
  config.server.listen = "127.0.0.1:0";
  return config;
}

}  // namespace kvgate::test
