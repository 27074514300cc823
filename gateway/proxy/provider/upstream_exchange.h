// UpstreamExchange: one request to one upstream, its answer as it comes, and the account of both.
// How the answer is passed on is another's business: forwarded_body.h, translated_body.h.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "gateway/metrics/registry.h"
#include "gateway/proxy/provider/exchange_account.h"
#include "gateway/proxy/provider/outgoing_request.h"
#include "gateway/proxy/request/request_context.h"
#include "gateway/upstream/exchange.h"
#include "gateway/upstream/exchange_observer.h"
#include "gateway/upstream/secret_mask.h"

namespace kvgate::proxy::provider {

class UpstreamExchange {
 public:
  using Clock = SteadyClock;
  explicit UpstreamExchange(request::RequestContext& request) : request_(request) {}

  request::RequestContext& request() const { return request_; }
  // Opens the account, with the upstream that was chosen; null: none could be.
  void Open(upstream::Upstream* upstream, std::string_view model);
  upstream::Upstream* upstream() const { return upstream_; }
  ExchangeAccount* account() const { return account_.get(); }
  // The account is told this at its end.
  upstream::ExchangeEnd& end() { return end_; }

  // Makes the exchange. REQUIRES: Open with an upstream.
  void Connect();
  // Closes the account without a record, and opens another one for the same request to the same
  // upstream.
  void Reopen(std::string_view model);
  // Sends the request and waits for the head of the answer. `outgoing` must outlive the exchange,
  // which may still be sending when it answers.
  request::Task<Result<void>> Send(OutgoingRequest& outgoing);
  // Null before Connect.
  upstream::Exchange* wire() const { return exchange_.get(); }
  int status() const { return exchange_->status(); }

  // Takes the answer's head; the operator's key is masked in it, if the upstream repeats it.
  void TakeHead();
  const upstream::wire::HeaderFields& fields() const { return fields_; }
  std::string_view Field(std::string_view name) const {
    return upstream::wire::FindHeader(fields_, name);
  }
  // Replaces the fields of that name by one with this value.
  void ReplaceField(std::string_view name, std::string value);
  void DropField(std::string_view name);
  // Masks the operator's key; empty if none was added to the request.
  upstream::SecretMask Mask() const {
    return upstream::SecretMask(upstream_ == nullptr ? std::string_view() : upstream_->api_key());
  }
  // Reads the rest of the answer, up to this many bytes or to where it breaks off.
  request::Task<std::string> ReadAll(size_t bytes_max);

  // Tells the account of bytes that came and are on their way.
  void Observe(std::string_view piece) {
    if (piece.empty()) return;
    if (gaps_ != nullptr) ObserveGap();
    if (account_) account_->observer().OnBody(piece);
  }
  // Notes the first byte of the body that goes out.
  void NoteBody() {
    if (end_.first_body.count() < 0) end_.first_body = Clock::now() - request_.head().received_at;
  }
  // The explanation of the exchange for its caller, as JSON.
  std::string Explain();
  // Closes the account.
  void Close();

 private:
  void TakeTimes();
  void ObserveGap();

  request::RequestContext& request_;
  upstream::Upstream* upstream_ = nullptr;
  std::shared_ptr<ExchangeAccount> account_;  // null: no accounts are kept
  std::string head_;                          // of the request
  bool starts_ = true;                        // until the answer's head has come
  bool hash_is_due_ = false;                  // the sent bodies are to be hashed when it has
  std::unique_ptr<upstream::Exchange> exchange_;
  upstream::ExchangeEnd end_;
  upstream::wire::HeaderFields fields_;
  metrics::Histogram* gaps_ = nullptr;           // between pieces; null: it is no stream
  std::optional<Clock::time_point> last_piece_;  // of a stream
  std::deque<std::string> own_values_;           // of those fields that were changed
};

}  // namespace kvgate::proxy::provider
