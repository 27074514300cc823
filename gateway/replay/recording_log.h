// RecordingLog: an ExchangeLog in front of another one that also appends each forwarded request,
// with its body and what its answer used, to a trace. Of its headers only those are kept that
// decide caching; never a credential. Thread-safe; the observers as ExchangeObserver says.
#pragma once

#include <memory>
#include <string_view>

#include "gateway/replay/trace.h"
#include "gateway/upstream/exchange_observer.h"

namespace kvgate::replay {

class RecordingLog final : public upstream::ExchangeLog {
 public:
  // Both outlive it.
  RecordingLog(upstream::ExchangeLog& inner, TraceWriter& trace) : inner_(inner), trace_(trace) {}

  std::unique_ptr<upstream::ExchangeObserver> Begin(const upstream::ExchangeStart& start) override;
  upstream::Spending Spent(std::string_view tenant) const override { return inner_.Spent(tenant); }

 private:
  upstream::ExchangeLog& inner_;
  TraceWriter& trace_;
};

// Whether a trace keeps a header of that name, whatever its case.
bool IsKeptHeader(std::string_view name);

}  // namespace kvgate::replay
