// What `kvgate bench kv-quality` measures: how far the logits over a text move away from those with
// an f32 KV cache, for each KV dtype and for each context policy, and what either saves. The
// forward alone, without an engine.
#pragma once

#include <cstdio>
#include <filesystem>

#include <kvgate/result.h>

namespace kvgate::cli {

struct BenchKvQualityOptions {
  // Empty: the trained model of the test data ($KVGATE_TEST_DATA, else ../shared) if it is there,
  // and one of random weights where that one's heads are too narrow for quantized KV.
  std::filesystem::path model_path;
  std::filesystem::path text_path;  // empty: a short story that is built in
  int num_tokens = 512;             // of the text, at most; the model's context bounds it too
  int threads = 1;
  int attention_tokens = 4096;  // for the speed of decode attention; 0: not measured
  std::FILE* out = stdout;
};

// The text is teacher-forced in steps of one KV block. Prints per dtype and per policy (keeping 1/2
// and 1/4 of the text, over f32 KV): KV bytes per token, mean and largest KL divergence from f32 KV
// (nats), how often the likeliest token is the same, and perplexity; then the time of decode
// attention per dtype. kInvalidArgument names the option; kNotFound: no such file.
Result<void> RunBenchKvQuality(const BenchKvQualityOptions& options);

}  // namespace kvgate::cli
