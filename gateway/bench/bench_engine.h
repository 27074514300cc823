// `kvgate bench engine`: measures prefill and decode of one model shape against the limits of the
// machine, and `bench kv-cache`, which decodes with and without a KV cache. It runs only the
// forward pass, without a server or an engine loop.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/model/make_model.h"
#include "gateway/bench/bench_shapes.h"
#include "kernels/dtype.h"

namespace kvgate::bench {

struct BenchEngineOptions {
  std::filesystem::path model_path = {};  // a real model; empty: made of `shape` and `types`
  model::MakeModelOptions shape = *FindBenchShape("0.5b");  // its dtype is not used
  std::vector<std::string> types = {"f16", "q8_0"};         // of weights, as in make-model --type
  kernels::DType kv_dtype = kernels::DType::kF16;
  std::vector<int> threads = {1, 2};
  std::string cpu_target = {};  // empty: the best available
  int prompt_tokens = 512;
  int decode_tokens = 128;
  int repetitions = 3;             // the median is reported
  double decode_seconds_max = 10;  // a decode run ends here, with the tokens it has
  // Directory that keeps generated models for the next run; empty: they are made in the temporary
  // directory and removed.
  std::filesystem::path cache_directory;
  std::FILE* out = stdout;
};

// Prints one line per type and number of threads: tok/s; GFLOP/s of prefill and its share of the
// FMA peak; GB/s of decode and its share of the read bandwidth. Both limits are measured in this
// run. Fails with kInvalidArgument naming the field, and as opening and loading a model do.
Result<void> RunBenchEngine(const BenchEngineOptions& options);

struct BenchKvCacheOptions {
  // A real model; empty: one of random weights, small enough for the quadratic method.
  std::filesystem::path model_path;
  int num_tokens = 96;  // n
  int threads = 1;
  std::FILE* out = stdout;
};

// Generates n tokens greedily, once keeping the KV of all earlier tokens and once recomputing every
// token for each new one: n token-forwards against n (n + 1) / 2. Prints both counts and their
// times. Fails with kInternal if the texts differ.
Result<void> RunBenchKvCache(const BenchKvCacheOptions& options);

}  // namespace kvgate::bench
