// ExchangeObserver: what a forwarded request shows to whoever keeps accounts of it. The ledger
// implements it; forwarding calls it and knows nothing of records, usage or prices.
//
// Order of calls: ExchangeLog::Begin, then OnPrepared, OnSent, OnHead, OnBody... and always exactly
// one OnEnd; those before it may be missing where the exchange ended early. A request that was
// refused before an upstream was chosen is begun too, with an empty `upstream`.
//
// Threads: Begin and Spent from any thread; the calls of one observer come one after the other,
// each happens before the next, from whichever thread serves the connection. They stand between an
// upstream's bytes and its client: nothing here may block on a disk or a lock held for long. All
// views end with the call.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/upstream/dialect.h"
#include "gateway/upstream/wire/header_rules.h"

namespace kvgate::upstream {

struct ExchangeStart {
  std::string_view request_id;                             // x-kvgate-request-id
  std::chrono::system_clock::time_point received_at = {};  // the end of the request's head
  std::string_view upstream;                               // its name; empty: none was chosen
  std::string_view provider;                               // "openai", "anthropic", …
  Dialect dialect = Dialect::kOpenAi;                      // the caller's
  Endpoint endpoint = Endpoint::kOther;
  std::string_view method;
  std::string_view path;    // without the query
  std::string_view model;   // as the body names it; empty: it names none, or cannot be read
  std::string_view tenant;  // the gateway key's name, else a hash of the credential, else empty
  std::string_view key;     // the gateway key's name; empty: there are no keys
  std::string_view body;    // as received, still in its content-encoding
  std::string_view content_encoding;     // of the request; empty: none
  bool stream = false;                   // the body asks for events
  const HeaderFields* fields = nullptr;  // of the request; null: not told
  bool is_subscription = false;  // the credential that goes upstream is one, so no byte is changed
};

// The upstream's status and headers have come.
struct ExchangeHead {
  int status = 0;
  std::string_view content_type;
  std::string_view content_encoding;
  std::string_view upstream_request_id;  // x-request-id or request-id; empty: none
};

enum class ExchangeOutcome : uint8_t {
  kComplete,     // the whole answer reached the client
  kClientLeft,   // the upstream was let go
  kUpstreamCut,  // the answer broke off; the client got it so far and then the cut
  kFailed,       // no answer came: down, timed out, malformed; the client got `status`
  kRefused,      // never sent: no such model, a limit, a breaker that is open
};

struct ExchangeEnd {
  ExchangeOutcome outcome = ExchangeOutcome::kComplete;
  int status = 0;           // what the client got; 499 where it left before
  std::string error = {};   // one sentence; empty where complete
  int num_attempts = 0;     // connections tried
  uint64_t body_bytes = 0;  // of the answer, passed on to the client
  bool superseded = false;  // another upstream answers instead: this one leaves no record
  // Since the request's head was read; negative: it did not come to that.
  std::chrono::nanoseconds body_read{-1};   // the request's body was here
  std::chrono::nanoseconds connected{-1};   // a connection of the pool, or a new one
  std::chrono::nanoseconds sent{-1};        // the last byte of the request
  std::chrono::nanoseconds first_byte{-1};  // of the answer's head
  std::chrono::nanoseconds first_body{-1};  // of its body
  std::chrono::nanoseconds ended{-1};
};

// What a limit on tokens counts: as the upstream reported them, 0 where it reported none.
struct ExchangeTotals {
  uint64_t input_tokens = 0;  // cached ones included
  uint64_t output_tokens = 0;
};

// What was decided of a request before it was sent. Forwarding passes it on and knows nothing of
// it.
class ExchangePreparation {
 public:
  virtual ~ExchangePreparation() = default;
};

class ExchangeObserver {
 public:
  virtual ~ExchangeObserver() = default;
  // At most once, before OnSent. Never null. Who has no use for it lets it go.
  virtual void OnPrepared(std::shared_ptr<ExchangePreparation> /*preparation*/) {}
  // At most once, before OnSent: the request goes out in another dialect, to that endpoint, and
  // what comes to OnBody is its answer; `left_out` names what that dialect has not.
  virtual void OnTranslated(Endpoint /*sent_endpoint*/,
                            const std::vector<std::string>& /*left_out*/) {}
  // The whole request has been handed to the upstream's connection: while it thinks there is time,
  // so what costs with the body's size (a digest) belongs here and not into Begin. With a large
  // body it is called on another thread, where OnHead and OnBody may be called meanwhile; it has
  // ended before OnEnd.
  virtual void OnSent(std::string_view body_received, std::string_view body_sent) = 0;
  virtual void OnHead(const ExchangeHead& head) = 0;
  // The next piece of the answer's body, without chunk framing, in its content-encoding. It is on
  // its way to the client when this is called.
  virtual void OnBody(std::string_view piece) = 0;
  // A JSON object that tells the caller of what has been told until now, for an answer that has
  // all but ended; at most once, before OnEnd. Empty: there is nothing to tell.
  virtual std::string Explain(const ExchangeEnd& /*until_now*/) { return ""; }
  virtual ExchangeTotals OnEnd(const ExchangeEnd& end) = 0;
};

// Dollars spent so far, for a key's limits.
struct Spending {
  double dollars_today = 0;       // since midnight UTC
  double dollars_this_month = 0;  // since the first, UTC
};

class ExchangeLog {
 public:
  virtual ~ExchangeLog() = default;
  // Never null. The body may be looked at, but costs here delay the request.
  virtual std::unique_ptr<ExchangeObserver> Begin(const ExchangeStart& start) = 0;
  virtual Spending Spent(std::string_view tenant) const = 0;
};

}  // namespace kvgate::upstream
