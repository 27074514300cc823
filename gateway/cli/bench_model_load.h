// What `kvgate bench load` measures: how long a model file takes until it can be used, beside the
// time of reading the file, and how much memory the process holds at most meanwhile.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <kvgate/result.h>

#include "engine/model/make_model.h"
#include "engine/model/weight_recipe.h"
#include "gateway/bench/bench_shapes.h"

namespace kvgate::cli {

// Ready in at most this many times the time of reading the file.
inline constexpr double kReadyPerReadMax = 2.0;
// At most this share of the file in memory, and the KV cache, and so much for everything else.
inline constexpr double kPeakPerFileMax = 1.15;
inline constexpr uint64_t kPeakElseBytes = uint64_t{200} << 20;

struct BenchModelLoadOptions {
  model::MakeModelOptions shape = *FindBenchShape("0.5b");  // its dtype is not used
  std::vector<std::string> types = model::RecipeNames();    // of weights
  int threads = 0;                                          // 0: one per hardware thread
  uint64_t kv_bytes = uint64_t{256} << 20;
  int repetitions = 1;  // the fastest reading and the fastest load count
  // Where made models are kept for the next run; empty: made in the temporary directory, then
  // removed.
  std::filesystem::path cache_directory;
  std::FILE* out = stdout;
};

// Prints one line per type: the file's size, seconds to read it from a cold page cache and seconds
// until the model is loaded from a cold one, their ratio; the most memory the process held during
// the load, beside its limit. True: no ratio is past its limit. Linux's /proc is needed.
Result<bool> RunBenchModelLoad(const BenchModelLoadOptions& options);

}  // namespace kvgate::cli
