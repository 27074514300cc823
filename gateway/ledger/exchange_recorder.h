// ExchangeRecorder makes the record of one forwarded request from what its observer is told. It
// does not allocate while bytes pass. Digests are computed after the request has been sent, while
// the upstream is working.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "gateway/ledger/reply/usage_reader.h"
#include "gateway/ledger/request_record.h"
#include "gateway/upstream/body_digests.h"
#include "gateway/upstream/exchange_observer.h"

namespace kvgate::ledger {

class ExchangeRecorder final : public upstream::ExchangeObserver {
 public:
  using Sink = std::function<void(RequestRecord&&)>;
  // Adds what is known of the request's preparation to a record that is complete except for its
  // price. It is called once in OnEnd or Explain, whatever the outcome in the record, if there was
  // a preparation; the facts are empty if no answer came.
  using Complete =
      std::function<void(RequestRecord&, const reply::ReplyFacts&, upstream::ExchangePreparation&)>;
  using Price = std::function<void(RequestRecord&)>;
  // `sink` gets the record when the exchange has ended. `price` prices a record that is explained
  // before that. `complete` and `price` may be empty. `digests` must outlive the recorder.
  struct Hooks {
    Sink sink;
    upstream::BodyDigests& digests;
    Complete complete = {};
    Price price = {};
  };
  ExchangeRecorder(const upstream::ExchangeStart& start, Hooks hooks);

  void OnPrepared(std::shared_ptr<upstream::ExchangePreparation> preparation) override;
  void OnTranslated(dialect::form::Endpoint sent_endpoint,
                    const std::vector<std::string>& left_out) override;
  void OnSent(std::string_view body_received, std::string_view body_sent) override;
  void OnHead(const upstream::ExchangeHead& head) override;
  void OnBody(std::string_view piece) override;
  std::string Explain(const upstream::ExchangeEnd& until_now) override;
  void OnKept(const upstream::KeptPrefix& kept) override { record_.kept = kept; }
  upstream::ExchangeTotals OnEnd(const upstream::ExchangeEnd& end) override;

 private:
  void TakeUsage();
  void TakePieces();
  void TakeEnd(const upstream::ExchangeEnd& end);

  RequestRecord record_;
  dialect::form::Endpoint answered_endpoint_;  // the endpoint whose usage is counted
  std::optional<reply::UsageReader> reader_;   // set once the head has come
  std::shared_ptr<upstream::ExchangePreparation> preparation_;  // null if there was none
  const Hooks hooks_;
  // The times of an answer's pieces, if it is a stream.
  bool is_stream_ = false;
  std::optional<SteadyClock::time_point> first_piece_;
  SteadyClock::time_point last_piece_;
  SteadyClock::duration longest_gap_{0};
};

}  // namespace kvgate::ledger
