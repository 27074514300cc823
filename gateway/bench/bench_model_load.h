// `kvgate bench load`: measures how long a model file takes to become usable, compared with the
// time of reading the file, and the peak memory of the process meanwhile.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/model/make_model.h"
#include "engine/model/weight_recipe.h"
#include "gateway/bench/bench_shapes.h"

namespace kvgate::bench {

// Limit of the load time, as a multiple of the time of reading the file.
inline constexpr double kReadyPerReadMax = 2.0;
// Limit of the peak memory: this share of the file, plus the KV cache, plus kPeakElseBytes.
inline constexpr double kPeakPerFileMax = 1.15;
inline constexpr uint64_t kPeakElseBytes = uint64_t{200} << 20;

struct BenchModelLoadOptions {
  model::MakeModelOptions shape = *FindBenchShape("0.5b");  // its dtype is not used
  std::vector<std::string> types = model::RecipeNames();    // of weights
  int threads = 0;                                          // 0: one per hardware thread
  uint64_t kv_bytes = uint64_t{256} << 20;
  int repetitions = 1;  // the fastest reading and the fastest load count
  // Directory that keeps generated models for the next run; empty: they are made in the temporary
  // directory and removed.
  std::filesystem::path cache_directory;
  std::FILE* out = stdout;
};

// Prints one line per type: the file's size, seconds to read it and seconds to load the model, each
// with a cold page cache, and their ratio; then the peak memory of the load and its limit. Returns
// true if all are within their limits. Needs Linux's /proc.
Result<bool> RunBenchModelLoad(const BenchModelLoadOptions& options);

}  // namespace kvgate::bench
