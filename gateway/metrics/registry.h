// Registry holds counters, gauges and histograms, and writes them as Prometheus text.
//
// Instruments are registered at start and live as long as the registry. Recording is lock-free, but
// looking up a family's series is not. Label sets are bounded: beyond series_max, a family counts
// into {other}. Names carry the prefix kvgate_ and the base unit (seconds, bytes, tokens).
// The registry does not know what it measures.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvgate::metrics {

using Labels = std::vector<std::pair<std::string, std::string>>;

class Counter {
 public:
  void Add(uint64_t amount = 1) { value_.fetch_add(amount, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

class Gauge {
 public:
  void Add(int64_t amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  void Set(int64_t value) { value_.store(value, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

class Histogram {
 public:
  // `bounds` are ascending upper bounds; +Inf is added.
  explicit Histogram(std::vector<double> bounds);
  void Observe(double value);
  uint64_t count() const;
  double sum() const { return sum_.load(std::memory_order_relaxed); }
  const std::vector<double>& bounds() const { return bounds_; }
  // Counts are not cumulative; the last bucket is above every bound.
  uint64_t bucket(size_t index) const { return buckets_[index].load(std::memory_order_relaxed); }

 private:
  std::vector<double> bounds_;
  std::vector<std::atomic<uint64_t>> buckets_;
  std::atomic<double> sum_{0};
};

// Bounds for latencies, from 1 ms to 10 minutes.
std::vector<double> LatencyBounds();
// Bounds for the time between two tokens, from 1 ms to 10 s.
std::vector<double> TokenBounds();
// Bounds for numbers of tokens, from 16 to 4 million: powers of 4.
std::vector<double> LengthBounds();

// Appends samples in the Prometheus text format, version 0.0.4.
class TextWriter {
 public:
  explicit TextWriter(std::string& out) : out_(out) {}
  // Begins a family whose samples follow; `type` is "counter", "gauge" or "histogram".
  void Family(std::string_view name, std::string_view type, std::string_view help);
  void Sample(std::string_view name, const Labels& labels, double value);
  void Sample(std::string_view name, const Labels& labels, uint64_t value);
  void Sample(std::string_view name, const Labels& labels, const Histogram& histogram);

 private:
  void Begin(std::string_view name, const Labels& labels);
  std::string& out_;
};

// Instruments with one name that differ in their labels.
template <typename Instrument>
class InstrumentFamily {
 public:
  using Make = std::function<std::unique_ptr<Instrument>()>;
  InstrumentFamily(std::vector<std::string> label_names, size_t series_max, Make make)
      : label_names_(std::move(label_names)), series_max_(series_max), make_(std::move(make)) {}
  // Takes one value per label name; may be called from any thread. The reference stays valid, so
  // whoever records often keeps it.
  Instrument& With(std::initializer_list<std::string_view> values);
  void Write(std::string_view name, TextWriter& writer) const;

 private:
  const std::vector<std::string> label_names_;
  const size_t series_max_;
  const Make make_;
  mutable std::mutex mutex_;
  // A transparent comparison, so that a look-up creates no strings.
  struct Less {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
    }
  };
  std::map<std::vector<std::string>, std::unique_ptr<Instrument>, Less> series_;
};

using CounterFamily = InstrumentFamily<Counter>;
using HistogramFamily = InstrumentFamily<Histogram>;
extern template class InstrumentFamily<Counter>;
extern template class InstrumentFamily<Histogram>;

class Registry {
 public:
  // Instruments must be registered before the first Text(), and not from several threads at once.
  Counter& AddCounter(std::string name, std::string help);
  CounterFamily& AddCounterFamily(std::string name, std::string help,
                                  std::vector<std::string> label_names, size_t series_max = 256);
  Gauge& AddGauge(std::string name, std::string help);
  Histogram& AddHistogram(std::string name, std::string help, std::vector<double> bounds);
  HistogramFamily& AddHistogramFamily(std::string name, std::string help,
                                      std::vector<std::string> label_names,
                                      std::vector<double> bounds, size_t series_max = 64);
  // Called at every scrape, for numbers that another part already keeps.
  void AddCollector(std::function<void(TextWriter&)> collect);

  std::string Text() const;

 private:
  std::vector<std::function<void(TextWriter&)>> writers_;
  std::vector<std::shared_ptr<void>> instruments_;
};

}  // namespace kvgate::metrics
