// Sums: the metrics that a collector gets, as OpenTelemetry's conventions for generative AI name
// them: cumulative, by operation, provider and model. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "gateway/dialect/form/json_writer.h"
#include "gateway/telemetry/otlp/span.h"

namespace kvgate::telemetry::otlp {

class Sums {
 public:
  static constexpr size_t kSeriesMax = 256;  // further models and errors count as "other"

  explicit Sums(int64_t start_us) : start_us_(start_us) {}

  void Add(const Span& span);
  // Writes the elements of "metrics" in OTLP's JSON, as of this time.
  void Write(int64_t now_us, dialect::form::JsonWriter& json) const;
  bool empty() const { return series_.empty(); }

 private:
  struct Key {
    std::string operation;
    std::string provider;
    std::string model;
    std::string error_type;
    bool is_local = false;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Histogram {
    std::vector<uint64_t> counts;  // one more than there are bounds; empty: nothing was observed
    double sum = 0;
    uint64_t count = 0;
    void Observe(double value, std::span<const double> bounds);
  };
  struct Series {
    Histogram duration;
    Histogram first_chunk;
    Histogram per_token;
    Histogram input;  // tokens of one request
    Histogram output;
    int64_t input_tokens = 0;
    int64_t output_tokens = 0;
    int64_t cache_read_tokens = 0;
    int64_t cache_write_tokens = 0;
    int64_t reasoning_tokens = 0;
  };
  struct HistogramName;
  struct CounterName;
  static const HistogramName kHistograms[];
  static const CounterName kCounters[];

  Series& At(Key key);
  void WriteHistogram(const HistogramName& name, int64_t now_us,
                      dialect::form::JsonWriter& json) const;
  void WriteCounter(const CounterName& name, int64_t now_us, dialect::form::JsonWriter& json) const;
  static void WriteKey(const Key& key, std::string_view token_type,
                       dialect::form::JsonWriter& json);

  const int64_t start_us_;
  std::map<Key, Series> series_;
};

}  // namespace kvgate::telemetry::otlp
