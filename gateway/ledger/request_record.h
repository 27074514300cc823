// RequestRecord: what is kept of one request. No answer, no credential: numbers, names and digests;
// of a prompt nothing but the short excerpts around a break, where the configuration lets text be
// kept. record_format has its stored form.
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

// A change that was made on the way, by the name of its rule.
struct RecordEdit {
  std::string rule = {};
  int64_t count = 1;
  friend bool operator==(const RecordEdit&, const RecordEdit&) = default;
};

// What was decided of the upstream's cache.
struct RecordPlan {
  std::string reason = {};
  double expected_reuse = 0;  // of the prefix, in requests
  int64_t num_markers = 0;    // that went out, the caller's included
};

// Why the cached prefix ended where it did. Names as gateway/prompt has them.
struct RecordBreak {
  std::string cause = {};          // "none": all that could be read was read
  std::string path = {};           // of the first difference
  std::string volatile_kind = {};  // empty: it is not only volatile text
  std::string before = {};         // excerpts; empty: text is not kept
  std::string after = {};
  std::string verdict = {};  // one sentence
  int64_t reusable_tokens = 0;
  int64_t lost_tokens = 0;
  int64_t lost_nanodollars = 0;
};

// A part of the input, by what it is: "tools", "history" …
struct SourceTokens {
  std::string source = {};
  int64_t cached = 0;
  int64_t written = 0;
  int64_t uncached = 0;
  int64_t nanodollars = 0;  // its share of what the input cost
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
  std::string mode;  // as applied: "observe", "pin", "stabilize"; empty: it was not prepared
  std::vector<RecordEdit> edits;
  std::string conversation;         // 32 hex digits; empty: none was recognised
  std::string conversation_origin;  // what it was recognised by
  std::optional<RecordPlan> plan;   // absent: nothing was planned
  ReportedUsage reported;
  std::optional<TokenUsage> usage;  // absent: not known
  std::string usage_unknown;        // then why: "encoded", "media type", "not reported"
  std::string service_tier;
  std::optional<Cost> cost;                 // absent: not known
  std::string price_date;                   // of the row that it was computed with
  std::optional<RecordBreak> prefix_break;  // absent: it was not looked for
  std::vector<SourceTokens> attribution;    // in the order of the prompt; empty: not known
  std::string provider_reason;              // what the provider itself said of a miss
};

// Bounds of what is stored and shown, whatever a caller or an upstream has sent.
inline constexpr size_t kRecordTextBytesMax = 512;
inline constexpr size_t kRecordNameBytesMax = 64;  // of rules, causes and sources
inline constexpr size_t kRecordEditsMax = 64;
inline constexpr size_t kRecordSourcesMax = 16;
// Cuts the record to them: a model's name may be as long as a body.
void BoundRecord(RequestRecord& record);

// As one JSON object, which is what the API shows, within the bounds.
std::string RecordJson(const RequestRecord& record);

// A break as an object; empty where nothing is lost (its cause is "none").
std::string BreakJson(const RecordBreak& found);

// What a caller who asked for an explanation gets with its answer: the object "kvgate".
std::string ExplanationJson(const RequestRecord& record);

// "chat_completions"
std::string_view EndpointName(upstream::Endpoint endpoint);

}  // namespace kvgate::ledger
