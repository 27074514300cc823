// `kvgate bench serve`: many clients at once against a running server over HTTP, behaving like an
// agent framework: mixed prompts, some with a shared prefix, some cancelled midway.
//
// Answers are greedy, so the same prompt must give the same text whatever else is in the batch and
// whichever tier its prefix came from; complete answers to reused prompts are checked for that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace kvgate::bench {

struct BenchLoadOptions {
  std::string url = "http://127.0.0.1:8080";
  std::string authorization = {};  // the header's value; empty: none
  std::string model = "local";
  int clients = 16;
  double seconds = 10;  // no request starts after this time
  int prompt_tokens_min = 100;
  int prompt_tokens_max = 2000;  // lengths are log-uniform
  int output_tokens = 64;
  int prompts = 64;           // number of distinct prompts that are reused
  int shared_prefixes = 4;    // half of the prompts begin with one of these
  double fresh_share = 0.25;  // share of requests with a prompt never sent before
  double cancel_share = 0;    // share of requests that their client cancels midway
  int token_id_min = 16;      // prompts are token ids in this range, so their length is exact
  int token_id_max = 500;
  uint64_t seed = 1;
};

struct BenchLoadReport {
  uint64_t num_complete = 0;
  uint64_t num_cancelled = 0;  // by this client
  uint64_t num_refused = 0;    // 429 and 503, retried after a pause
  uint64_t num_errors = 0;     // anything else that is not an answer
  uint64_t num_different = 0;  // answers that differ from an earlier one to the same prompt
  std::string first_error;
  uint64_t num_prompt_tokens = 0;
  uint64_t num_cached_tokens = 0;
  uint64_t num_output_tokens = 0;  // of complete answers, as counted by the server
  double seconds = 0;              // until the last answer
  // Sorted milliseconds: from sending the request to the first text, between two pieces of text,
  // and to the end.
  std::vector<float> ttft_ms;
  std::vector<float> itl_ms;
  std::vector<float> total_ms;
};

// Fails with kInvalidArgument for invalid options and with kUnavailable if no server answers at the
// URL.
Result<BenchLoadReport> RunBenchLoad(const BenchLoadOptions& options);

// Returns the smallest value that at least `share` of the sorted values do not exceed; 0 if there
// are none.
float Percentile(const std::vector<float>& sorted, double share);

// Formats the report as a table for people, or as one JSON object.
std::string ReportText(const BenchLoadReport& report);
std::string ReportJson(const BenchLoadReport& report);

}  // namespace kvgate::bench
