// ExchangeObserver: the interface through which forwarding reports a request for accounting. The
// ledger implements it; forwarding calls it and knows nothing of records, usage or prices.
//
// Order of calls: ExchangeLog::Begin, then OnPrepared, OnSent, OnHead, OnBody... and always exactly
// one OnEnd; those before it may be missing if the exchange ended early. A request that is refused
// before an upstream was chosen is begun too, with an empty `upstream`.
//
// Threads: Begin and Spent are called from any thread; the calls of one observer are ordered, each
// happens before the next, on the thread that serves the connection; for OnSent see there. They run
// between an upstream's bytes and the client, so they must not block on a disk or on a lock held
// for long. All views end with the call.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/dialect/form/dialect.h"
#include "gateway/upstream/wire/header_rules.h"

namespace kvgate::upstream {

struct ExchangeStart {
  std::string_view request_id;                               // x-kvgate-request-id
  std::chrono::system_clock::time_point received_at = {};    // the end of the request's head
  std::string_view upstream;                                 // its name; empty: none was chosen
  std::string_view provider;                                 // "openai", "anthropic", …
  dialect::form::Api dialect = dialect::form::Api::kOpenAi;  // the caller's
  dialect::form::Endpoint endpoint = dialect::form::Endpoint::kOther;
  std::string_view method;
  std::string_view path;    // without the query
  std::string_view model;   // as the body names it; empty: none, or unreadable
  std::string_view tenant;  // the gateway key's name, else a hash of the credential, else empty
  std::string_view key;     // the gateway key's name; empty: there are no keys
  std::string_view session = {};      // as the caller named it; empty: it named none
  std::string_view prompt_name = {};  // the gateway's, which it named; empty: none
  std::string_view prompt_version = {};
  std::string_view body;                       // as received, still in its content-encoding
  std::string_view content_encoding;           // the request's; empty: none
  bool stream = false;                         // the body asks for a stream of events
  const wire::HeaderFields* fields = nullptr;  // the request's; null: not given
  // True if the upstream credential is a subscription's, so that no byte may be changed.
  bool is_subscription = false;
  std::string_view purpose = {};  // of a request of the gateway's own; empty: it is a client's
};

// The upstream's status and headers.
struct ExchangeHead {
  int status = 0;
  std::string_view content_type;
  std::string_view content_encoding;
  std::string_view upstream_request_id;  // x-request-id or request-id; empty: none
};

enum class ExchangeOutcome : uint8_t {
  kComplete,     // the whole answer reached the client
  kClientLeft,   // the client left, so the upstream exchange was aborted
  kUpstreamCut,  // the answer broke off; the client got it up to there
  kFailed,       // no answer came: down, timed out, malformed; the client got `status`
  kRefused,      // never sent: no such model, a limit, an open breaker
};

struct ExchangeEnd {
  ExchangeOutcome outcome = ExchangeOutcome::kComplete;
  int status = 0;           // sent to the client; 499 if it left before
  std::string error = {};   // one sentence; empty if complete
  int num_attempts = 0;     // connections tried
  uint64_t body_bytes = 0;  // of the answer, passed on to the client
  bool superseded = false;  // another upstream answers instead, so this exchange leaves no record
  // Times since the request's head was read; negative if that point was not reached.
  std::chrono::nanoseconds body_read{-1};   // the request's body was received
  std::chrono::nanoseconds connected{-1};   // to a kept or a new connection
  std::chrono::nanoseconds sent{-1};        // the last byte of the request
  std::chrono::nanoseconds first_byte{-1};  // of the answer's head
  std::chrono::nanoseconds first_body{-1};  // of the answer's body
  std::chrono::nanoseconds ended{-1};
};

// Tokens that count against a limit, as reported by the upstream; 0 if it reported none.
struct ExchangeTotals {
  uint64_t input_tokens = 0;  // including cached tokens
  uint64_t output_tokens = 0;
};

// A prefix that a provider keeps under a name, for rent, as one request has ordered it.
struct KeptPrefix {
  int64_t num_tokens = 0;
  int64_t seconds = 0;      // that it is kept for
  bool is_written = false;  // the request has written it; else it was prolonged
};

// Decisions made about a request before it was sent. Opaque to forwarding, which only passes it on.
class ExchangePreparation {
 public:
  virtual ~ExchangePreparation() = default;
};

class ExchangeObserver {
 public:
  virtual ~ExchangeObserver() = default;
  // Called at most once, before OnSent; never with null. The default discards it.
  virtual void OnPrepared(std::shared_ptr<ExchangePreparation> /*preparation*/) {}
  // Called at most once, before OnSent, if the request goes out in another dialect to
  // `sent_endpoint`; OnBody then gets that dialect's answer. `left_out` names the parts that the
  // dialect lacks.
  virtual void OnTranslated(dialect::form::Endpoint /*sent_endpoint*/,
                            const std::vector<std::string>& /*left_out*/) {}
  // Called when the whole request has been handed to the upstream's connection. Work that grows
  // with the body, such as a digest, belongs here instead of Begin, since the upstream is working
  // meanwhile. For a large body it is called on another thread, possibly while OnHead and OnBody
  // run; it returns before OnEnd is called.
  virtual void OnSent(std::string_view body_received, std::string_view body_sent) = 0;
  virtual void OnHead(const ExchangeHead& head) = 0;
  // Called with the next piece of the answer's body, without chunk framing, in its
  // content-encoding, when the piece is on its way to the client.
  virtual void OnBody(std::string_view piece) = 0;
  // Called at most once, before OnEnd, if the answer says that a prefix is kept.
  virtual void OnKept(const KeptPrefix& /*kept*/) {}
  // Returns a JSON object that explains the exchange to the caller, for an answer that has almost
  // ended; empty if there is nothing to explain. Called at most once, before OnEnd.
  virtual std::string Explain(const ExchangeEnd& /*until_now*/) { return ""; }
  virtual ExchangeTotals OnEnd(const ExchangeEnd& end) = 0;
};

// What a tenant has used so far, for its budgets. A token of a prompt counts whether it was cached
// or not.
struct Spending {
  double dollars_today = 0;       // since midnight UTC
  double dollars_this_month = 0;  // since the first day of the month, UTC
  int64_t tokens_today = 0;
  int64_t tokens_this_month = 0;
};

class ExchangeLog {
 public:
  virtual ~ExchangeLog() = default;
  // Never returns null. The body may be examined, but time spent here delays the request.
  virtual std::unique_ptr<ExchangeObserver> Begin(const ExchangeStart& start) = 0;
  virtual Spending Spent(std::string_view tenant) const = 0;
};

}  // namespace kvgate::upstream
