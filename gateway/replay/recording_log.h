// RecordingLog is an ExchangeLog in front of another one. It also appends each forwarded request to
// a trace, with its body and the usage of its answer. Only headers that affect caching are kept,
// never a credential. Thread-safe; its observers follow the rules of ExchangeObserver.
#pragma once

#include <memory>
#include <string_view>

#include "gateway/replay/trace.h"
#include "gateway/upstream/exchange_observer.h"

namespace kvgate::replay {

class RecordingLog final : public upstream::ExchangeLog {
 public:
  // `inner` and `trace` must outlive it.
  RecordingLog(upstream::ExchangeLog& inner, TraceWriter& trace) : inner_(inner), trace_(trace) {}

  std::unique_ptr<upstream::ExchangeObserver> Begin(const upstream::ExchangeStart& start) override;
  upstream::Spending Spent(std::string_view tenant) const override { return inner_.Spent(tenant); }

 private:
  upstream::ExchangeLog& inner_;
  TraceWriter& trace_;
};

// Returns true if a trace keeps the header; the name's case does not matter.
bool IsKeptHeader(std::string_view name);

}  // namespace kvgate::replay
