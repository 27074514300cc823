// A Bucket is what is counted of the requests of one span of time and one name: a model, a source
// of tokens, a cause of a break. Two buckets can be added without loss. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/ledger/rollup/histogram.h"

namespace kvgate::ledger::rollup {

struct Bucket {
  int64_t requests = 0;
  int64_t failed = 0;
  int64_t cached_tokens = 0;
  int64_t written_tokens = 0;
  int64_t uncached_tokens = 0;
  int64_t output_tokens = 0;
  int64_t nanodollars = 0;
  int64_t uncached_nanodollars = 0;
  int64_t breaks = 0;
  int64_t lost_tokens = 0;
  int64_t lost_nanodollars = 0;
  // Output tokens after the first, and the time from the first to the last: their quotient is the
  // speed of an answer.
  int64_t decoded_tokens = 0;
  int64_t decode_us = 0;
  int64_t direct_nanodollars = 0;
  Histogram ttft = {};
  Histogram tpot = {};

  void Merge(const Bucket& other);
  friend bool operator==(const Bucket&, const Bucket&) = default;
};

// Encodes it in the layout of store/FORMAT.md; counts that are 0 take no bytes.
std::string EncodeBucket(const Bucket& bucket);
// Reads it into `bucket`. Returns false if the bytes are none, or of an unknown version.
bool DecodeBucket(std::string_view bytes, Bucket& bucket);

}  // namespace kvgate::ledger::rollup
