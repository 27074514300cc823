// What `kvgate bench serve` does: many clients at once against a running server over HTTP, as an
// agent framework would be: mixed prompts, some with a shared beginning, some cancelled midway.
//
// Answers are greedy, so the same prompt must give the same text whoever runs beside it and
// wherever its prefix came from; that is checked with every answer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <kvgate/result.h>

namespace kvgate::cli {

struct BenchLoadOptions {
  std::string url = "http://127.0.0.1:8080";
  std::string authorization = {};  // the header's value; empty: none
  std::string model = "local";
  int clients = 16;
  double seconds = 10;  // no request starts later
  int prompt_tokens_min = 100;
  int prompt_tokens_max = 2000;  // lengths are spread evenly over the logarithm
  int output_tokens = 64;
  int prompts = 64;           // different ones, used again and again
  int shared_prefixes = 4;    // half of the prompts begin with one of these
  double fresh_share = 0.25;  // of the requests, with a prompt never sent before
  double cancel_share = 0;    // of the requests, ended by their client midway
  int token_id_min = 16;      // prompts are token ids of this range, so that their length is exact
  int token_id_max = 500;
  uint64_t seed = 1;
};

struct BenchLoadReport {
  uint64_t num_complete = 0;
  uint64_t num_cancelled = 0;  // by this client
  uint64_t num_refused = 0;    // 429 and 503, tried again after a pause
  uint64_t num_errors = 0;     // anything else that is no answer
  uint64_t num_different = 0;  // answers that differ from an earlier one to the same prompt
  std::string first_error;
  uint64_t num_prompt_tokens = 0;
  uint64_t num_cached_tokens = 0;
  uint64_t num_output_tokens = 0;  // counted by the server, of complete answers
  double seconds = 0;              // until the last answer
  // Milliseconds, sorted: request sent to first text; between two pieces of text; to the end.
  std::vector<float> ttft_ms;
  std::vector<float> itl_ms;
  std::vector<float> total_ms;
};

// kInvalidArgument: senseless options. kUnavailable: nobody serves at the URL.
Result<BenchLoadReport> RunBenchLoad(const BenchLoadOptions& options);

// The value that `share` of the sorted values do not exceed; 0 of none.
float Percentile(const std::vector<float>& sorted, double share);

// A table for people, or one JSON object.
std::string ReportText(const BenchLoadReport& report);
std::string ReportJson(const BenchLoadReport& report);

}  // namespace kvgate::cli
