// ExchangeRecorder: makes the record of one forwarded request from what its observer is told. What
// it does while bytes pass costs no allocation; digests are computed once the request has been
// sent, while the upstream thinks.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "gateway/ledger/request_record.h"
#include "gateway/ledger/usage_reader.h"
#include "gateway/upstream/exchange_observer.h"

namespace kvgate::ledger {

class ExchangeRecorder final : public upstream::ExchangeObserver {
 public:
  using Sink = std::function<void(RequestRecord&&)>;
  // `sink` gets the record when the exchange has ended.
  ExchangeRecorder(const upstream::ExchangeStart& start, Sink sink);

  void OnSent(std::string_view body_received, std::string_view body_sent) override;
  void OnHead(const upstream::ExchangeHead& head) override;
  void OnBody(std::string_view piece) override;
  upstream::ExchangeTotals OnEnd(const upstream::ExchangeEnd& end) override;

 private:
  void TakeUsage();

  RequestRecord record_;
  std::optional<UsageReader> reader_;  // from the head on
  const Sink sink_;
};

PrefixDigest DigestOf(std::string_view bytes);

}  // namespace kvgate::ledger
