#include "gateway/metrics/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace kvgate::metrics {
namespace {

void AppendLabelValue(std::string_view value, std::string& out) {
  for (const char c : value) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), buckets_(bounds_.size() + 1) {
  KVGATE_CHECK(std::is_sorted(bounds_.begin(), bounds_.end()), "histogram bounds must ascend");
}

void Histogram::Observe(double value) {
  const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  buckets_[static_cast<size_t>(bound - bounds_.begin())].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

uint64_t Histogram::count() const {
  uint64_t total = 0;
  for (const auto& bucket : buckets_) total += bucket.load(std::memory_order_relaxed);
  return total;
}

std::vector<double> LatencyBounds() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
          1,     2.5,    5,     10,   25,    60,   120, 300,  600};
}

std::vector<double> TokenBounds() {
  return {0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06,
          0.08,  0.1,    0.15,  0.25,   0.5,  1,     2.5,  5,    10};
}

std::vector<double> LengthBounds() {
  return {16, 64, 256, 1024, 4096, 16'384, 65'536, 262'144, 1'048'576, 4'194'304};
}

void TextWriter::Family(std::string_view name, std::string_view type, std::string_view help) {
  fmt::format_to(std::back_inserter(out_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void TextWriter::Begin(std::string_view name, const Labels& labels) {
  out_ += name;
  if (!labels.empty()) {
    char separator = '{';
    for (const auto& [key, value] : labels) {
      out_ += separator;
      out_ += key;
      out_ += "=\"";
      AppendLabelValue(value, out_);
      out_ += '"';
      separator = ',';
    }
    out_ += '}';
  }
  out_ += ' ';
}

void TextWriter::Sample(std::string_view name, const Labels& labels, double value) {
  Begin(name, labels);
  fmt::format_to(std::back_inserter(out_), "{}\n", value);
}

void TextWriter::Sample(std::string_view name, const Labels& labels, uint64_t value) {
  Begin(name, labels);
  fmt::format_to(std::back_inserter(out_), "{}\n", value);
}

void TextWriter::Sample(std::string_view name, const Labels& labels, const Histogram& histogram) {
  const std::string bucket_name = fmt::format("{}_bucket", name);
  uint64_t cumulative = 0;
  for (size_t index = 0; index <= histogram.bounds().size(); ++index) {
    cumulative += histogram.bucket(index);
    Labels with_bound = labels;
    with_bound.emplace_back("le", index < histogram.bounds().size()
                                      ? fmt::format("{}", histogram.bounds()[index])
                                      : "+Inf");
    Sample(bucket_name, with_bound, cumulative);
  }
  Sample(fmt::format("{}_sum", name), labels, histogram.sum());
  // The count must equal the +Inf bucket, so it comes from the same snapshot.
  Sample(fmt::format("{}_count", name), labels, cumulative);
}

namespace {

void WriteOne(std::string_view name, const Labels& labels, const Counter& counter,
              TextWriter& writer) {
  writer.Sample(name, labels, counter.value());
}

void WriteOne(std::string_view name, const Labels& labels, const Histogram& histogram,
              TextWriter& writer) {
  writer.Sample(name, labels, histogram);
}

}  // namespace

template <typename Instrument>
Instrument& InstrumentFamily<Instrument>::With(std::initializer_list<std::string_view> values) {
  KVGATE_CHECK(values.size() == label_names_.size(), "one value per label");
  const std::lock_guard lock(mutex_);
  auto found = series_.find(values);
  if (found == series_.end()) {
    std::vector<std::string> key(values.size(), "other");
    if (series_.size() + 1 < series_max_) key.assign(values.begin(), values.end());
    found = series_.try_emplace(std::move(key), make_()).first;
  }
  return *found->second;
}

template <typename Instrument>
void InstrumentFamily<Instrument>::Write(std::string_view name, TextWriter& writer) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [values, instrument] : series_) {
    Labels labels;
    for (size_t i = 0; i < values.size(); ++i) labels.emplace_back(label_names_[i], values[i]);
    WriteOne(name, labels, *instrument, writer);
  }
}

template class InstrumentFamily<Counter>;
template class InstrumentFamily<Histogram>;

Counter& Registry::AddCounter(std::string name, std::string help) {
  auto counter = std::make_shared<Counter>();
  instruments_.push_back(counter);
  writers_.push_back([name, help, counter = counter.get()](TextWriter& writer) {
    writer.Family(name, "counter", help);
    writer.Sample(name, {}, counter->value());
  });
  return *counter;
}

CounterFamily& Registry::AddCounterFamily(std::string name, std::string help,
                                          std::vector<std::string> label_names, size_t series_max) {
  auto family = std::make_shared<CounterFamily>(std::move(label_names), series_max,
                                                [] { return std::make_unique<Counter>(); });
  instruments_.push_back(family);
  writers_.push_back([name, help, family = family.get()](TextWriter& writer) {
    writer.Family(name, "counter", help);
    family->Write(name, writer);
  });
  return *family;
}

Gauge& Registry::AddGauge(std::string name, std::string help) {
  auto gauge = std::make_shared<Gauge>();
  instruments_.push_back(gauge);
  writers_.push_back([name, help, gauge = gauge.get()](TextWriter& writer) {
    writer.Family(name, "gauge", help);
    writer.Sample(name, {}, static_cast<double>(gauge->value()));
  });
  return *gauge;
}

Histogram& Registry::AddHistogram(std::string name, std::string help, std::vector<double> bounds) {
  auto histogram = std::make_shared<Histogram>(std::move(bounds));
  instruments_.push_back(histogram);
  writers_.push_back([name, help, histogram = histogram.get()](TextWriter& writer) {
    writer.Family(name, "histogram", help);
    writer.Sample(name, {}, *histogram);
  });
  return *histogram;
}

HistogramFamily& Registry::AddHistogramFamily(std::string name, std::string help,
                                              std::vector<std::string> label_names,
                                              std::vector<double> bounds, size_t series_max) {
  auto family = std::make_shared<HistogramFamily>(
      std::move(label_names), series_max,
      [bounds = std::move(bounds)] { return std::make_unique<Histogram>(bounds); });
  instruments_.push_back(family);
  writers_.push_back([name, help, family = family.get()](TextWriter& writer) {
    writer.Family(name, "histogram", help);
    family->Write(name, writer);
  });
  return *family;
}

void Registry::AddCollector(std::function<void(TextWriter&)> collect) {
  writers_.push_back(std::move(collect));
}

std::string Registry::Text() const {
  std::string out;
  TextWriter writer(out);
  for (const auto& write : writers_) write(writer);
  return out;
}

}  // namespace kvgate::metrics
