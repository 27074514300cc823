// What `kvgate bench engine` measures: prefill and decode of one model shape against the limits of
// the machine, and the textbook case for a KV cache. No server, no engine loop: the forward alone.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <kvgate/result.h>

#include "engine/model/make_model.h"
#include "gateway/bench/bench_shapes.h"
#include "kernels/dtype.h"

namespace kvgate::cli {

struct BenchEngineOptions {
  model::MakeModelOptions shape = *FindBenchShape("0.5b");  // its dtype is not used
  std::vector<std::string> types = {"f16", "q8_0"};         // of weights, as in make-model --type
  kernels::DType kv_dtype = kernels::DType::kF16;
  std::vector<int> threads = {1, 2};
  std::string cpu_target = {};  // empty: the best there is
  int prompt_tokens = 512;
  int decode_tokens = 128;
  int repetitions = 3;             // the median is reported
  double decode_seconds_max = 10;  // a decode run ends here, with the tokens it has
  // Where made models are kept for the next run; empty: made in the temporary directory, then
  // removed.
  std::filesystem::path cache_directory;
  std::FILE* out = stdout;
};

// Prints one line per type and number of threads: tok/s, GFLOP/s of prefill and its share of the
// FMA peak, GB/s of decode and its share of the read bandwidth, both limits measured in this run.
Result<void> RunBenchEngine(const BenchEngineOptions& options);

struct BenchKvCacheOptions {
  // A real model, or empty: one of random weights, small enough for the quadratic way.
  std::filesystem::path model_path;
  int num_tokens = 96;  // n
  int threads = 1;
  std::FILE* out = stdout;
};

// Generates n tokens greedily, once with the KV of all tokens before kept and once computing every
// token again for each new one: n token-forwards against n (n + 1) / 2. Prints both and their
// times. kInternal when the texts differ.
Result<void> RunBenchKvCache(const BenchKvCacheOptions& options);

}  // namespace kvgate::cli
