// `kvgate bench kv-quality`: measures how far the logits over a text diverge from those with an f32
// KV cache, for each KV dtype and context policy, and the memory that each saves. It runs only the
// forward pass, without an engine.
#pragma once

#include <cstdio>
#include <filesystem>

#include "base/result.h"

namespace kvgate::bench {

struct BenchKvQualityOptions {
  // Empty: the trained model of the test data ($KVGATE_TEST_DATA, else ../shared) if it exists, and
  // one of random weights if the trained one's heads are too narrow for quantized KV.
  std::filesystem::path model_path;
  std::filesystem::path text_path;  // empty: a built-in short story
  int num_tokens = 512;             // of the text, at most; also bounded by the model's context
  int threads = 1;
  int attention_tokens = 4096;  // context for timing decode attention; 0: not measured
  std::FILE* out = stdout;
};

// Feeds the text (teacher forcing) in steps of one KV block. Prints per dtype and per policy
// (keeping 1/2 and 1/4 of the text, over f32 KV): KV bytes per token, mean and largest KL
// divergence from f32 KV (nats), how often the most likely token agrees, and perplexity; then the
// time of decode attention per dtype. Fails with kInvalidArgument, naming the option, or kNotFound
// for a missing file.
Result<void> RunBenchKvQuality(const BenchKvQualityOptions& options);

}  // namespace kvgate::bench
