// RequestRecord: what is kept of one request. No prompt, no answer, no credential: numbers, names
// and digests. record_format has its stored form.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <kvgate/ids.h>

#include "gateway/ledger/prices.h"
#include "gateway/ledger/usage.h"
#include "gateway/upstream/dialect.h"

namespace kvgate::ledger {

// Microseconds; negative: it did not come to that.
struct RequestTimings {
  int64_t queue_us = -1;       // ready to run until it ran: for a connection, or in the engine
  int64_t first_byte_us = -1;  // of an upstream's answer, since the request was received
  int64_t ttft_us = -1;        // first byte of the body, or first token, since then
  int64_t total_us = -1;
};

struct RequestRecord {
  std::string id;       // x-kvgate-request-id; in text order it is in time order
  int64_t time_us = 0;  // when it was received, since 1970
  upstream::Endpoint endpoint = upstream::Endpoint::kOther;
  upstream::Dialect dialect = upstream::Dialect::kOpenAi;
  std::string path;         // without the query
  std::string upstream;     // its name; "local": the engine; empty: none was chosen
  std::string provider;     // whose prices
  std::string model;        // as asked for
  std::string answered_by;  // the model that the answer names; empty: none
  std::string tenant;
  std::string outcome = "complete";  // or "client_left", "upstream_cut", "failed", "refused"
  std::string error;                 // one sentence
  int status = 0;
  bool stream = false;
  int num_attempts = 0;
  std::string upstream_request_id;
  RequestTimings timings;
  uint64_t received_bytes = 0;  // bodies
  uint64_t sent_bytes = 0;
  uint64_t answer_bytes = 0;
  std::optional<PrefixDigest> received_sha256;  // absent: it was never sent on
  std::optional<PrefixDigest> sent_sha256;
  std::vector<std::string> edits;  // by name
  ReportedUsage reported;
  std::optional<TokenUsage> usage;  // absent: not known
  std::string usage_unknown;        // then why: "encoded", "media type", "not reported"
  std::string service_tier;
  std::optional<Cost> cost;  // absent: not known
  std::string price_date;    // of the row that it was computed with
};

// As one JSON object, which is what the API shows. Bounded: texts are cut to 512 bytes.
std::string RecordJson(const RequestRecord& record);

// "chat_completions"
std::string_view EndpointName(upstream::Endpoint endpoint);

}  // namespace kvgate::ledger
