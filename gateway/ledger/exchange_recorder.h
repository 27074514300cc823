// ExchangeRecorder: makes the record of one forwarded request from what its observer is told. What
// it does while bytes pass costs no allocation; digests are computed once the request has been
// sent, while the upstream thinks.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "gateway/ledger/request_record.h"
#include "gateway/ledger/usage_reader.h"
#include "gateway/upstream/exchange_observer.h"

namespace kvgate::ledger {

class ExchangeRecorder final : public upstream::ExchangeObserver {
 public:
  using Sink = std::function<void(RequestRecord&&)>;
  // Adds to a record that is whole but for its price what is known of how its request was
  // prepared. Called once in OnEnd, whatever the outcome (the record has it), where there was a
  // preparation; the facts are empty where no answer came.
  using Complete =
      std::function<void(RequestRecord&, const ReplyFacts&, upstream::ExchangePreparation&)>;
  using Price = std::function<void(RequestRecord&)>;
  // `sink` gets the record when the exchange has ended, `price` one that is to be explained before;
  // `complete` and `price` may be empty.
  struct Hooks {
    Sink sink;
    Complete complete = {};
    Price price = {};
  };
  ExchangeRecorder(const upstream::ExchangeStart& start, Hooks hooks);

  void OnPrepared(std::shared_ptr<upstream::ExchangePreparation> preparation) override;
  void OnTranslated(upstream::Endpoint sent_endpoint,
                    const std::vector<std::string>& left_out) override;
  void OnSent(std::string_view body_received, std::string_view body_sent) override;
  void OnHead(const upstream::ExchangeHead& head) override;
  void OnBody(std::string_view piece) override;
  std::string Explain(const upstream::ExchangeEnd& until_now) override;
  upstream::ExchangeTotals OnEnd(const upstream::ExchangeEnd& end) override;

 private:
  void TakeUsage();
  void TakeEnd(const upstream::ExchangeEnd& end);

  RequestRecord record_;
  upstream::Endpoint answered_endpoint_;                        // whose usage is counted
  std::optional<UsageReader> reader_;                           // from the head on
  std::shared_ptr<upstream::ExchangePreparation> preparation_;  // null: there was none
  const Hooks hooks_;
};

PrefixDigest DigestOf(std::string_view bytes);

}  // namespace kvgate::ledger
