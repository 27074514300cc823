// A RequestRecord is what is kept of one request: numbers, names and digests, but no answer and no
// credential. The only prompt text in it is the short excerpts around a break, if the configuration
// allows text to be kept. record_format stores it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "gateway/dialect/form/dialect.h"
#include "gateway/ledger/prices.h"
#include "gateway/ledger/reply/usage.h"
#include "gateway/ledger/segment/record_segment.h"
#include "gateway/upstream/exchange_observer.h"
#include "gateway/upstream/wire/trace_context.h"

namespace kvgate::ledger {

// Times in microseconds; negative if that point was not reached.
struct RequestTimings {
  int64_t queue_us = -1;       // from ready until running: for a connection, or in the engine
  int64_t first_byte_us = -1;  // of the upstream's answer, since the request was received
  int64_t ttft_us = -1;  // first byte of the body or first token, since the request was received
  int64_t total_us = -1;
  int64_t prefill_us = -1;  // of the engine, until its first token
  int64_t decode_us = -1;   // from the first token, or piece of a stream, to the last
  int64_t tpot_us = -1;     // decode_us per output token after the first
  int64_t itl_us_max = -1;  // the longest gap between two tokens, or pieces of a stream
};

// Prompt tokens by where their KV came from; they sum to the prompt.
struct TierTokens {
  int64_t device = 0;
  int64_t host = 0;
  int64_t disk = 0;
  int64_t shared = 0;  // the store that gateways share
  int64_t computed = 0;
  friend bool operator==(const TierTokens&, const TierTokens&) = default;
};

// A change to the request on its way, by the name of its rule.
struct RecordEdit {
  std::string rule = {};
  int64_t count = 1;
  friend bool operator==(const RecordEdit&, const RecordEdit&) = default;
};

// The planner's decision about the upstream's cache.
struct RecordPlan {
  std::string reason = {};
  double expected_reuse = 0;    // expected reads of the prefix, in requests
  int64_t num_breakpoints = 0;  // breakpoints that went out, including the caller's
};

// Why the cached prefix ended where it did; names are those of gateway/prompt.
struct RecordBreak {
  std::string cause = {};          // "none": all that could be read was read
  std::string path = {};           // of the first difference
  std::string volatile_kind = {};  // empty if more than volatile text differs
  std::string before = {};         // excerpts; empty: text is not kept
  std::string after = {};
  std::string verdict = {};  // one sentence
  int64_t reusable_tokens = 0;
  int64_t lost_tokens = 0;
  int64_t lost_nanodollars = 0;
};

// Lines of the prompt whose present values could not be said, so that the provider kept earlier
// ones.
struct RecordHold {
  int64_t num_lines = 0;
  int64_t seconds = 0;  // since all of them were said
  friend bool operator==(const RecordHold&, const RecordHold&) = default;
};

// A part of the input by its source: "tools", "history" …
struct SourceTokens {
  std::string source = {};
  int64_t cached = 0;
  int64_t written = 0;
  int64_t uncached = 0;
  int64_t nanodollars = 0;  // its share of the input cost
};

struct RequestRecord {
  std::string id;       // x-kvgate-request-id; its text order is time order
  int64_t time_us = 0;  // since 1970, when the request was received
  dialect::form::Endpoint endpoint = dialect::form::Endpoint::kOther;
  dialect::form::Api dialect = dialect::form::Api::kOpenAi;
  std::string path;         // without the query
  std::string upstream;     // its name; "local" is the engine; empty: none was chosen
  std::string provider;     // whose prices apply
  std::string model;        // as asked for; of the local engine, the model's own name
  std::string asked_model;  // what the caller called it; empty: `model`
  std::string answered_by;  // the model that the answer names; empty if none
  std::string tenant;
  std::string key;      // the name of the caller's [[key]]; empty: there are none
  std::string session;  // as the caller named it; empty: it named none
  // 16 hex digits that are equal for prompts with the same tools and system text, but for volatile
  // lines; empty: not known.
  std::string prompt;
  // The prompt of the gateway that it named, or that its session has; empty: none.
  std::string prompt_name;
  std::string prompt_version;
  std::string outcome = "complete";  // or "client_left", "upstream_cut", "failed", "refused"
  std::string error;                 // one sentence
  int status = 0;
  bool stream = false;
  int num_attempts = 0;
  std::string upstream_request_id;
  RequestTimings timings;
  uint64_t received_bytes = 0;  // of the bodies
  uint64_t sent_bytes = 0;
  uint64_t answer_bytes = 0;
  std::optional<PrefixDigest> received_sha256;  // absent if it was never sent on
  std::optional<PrefixDigest> sent_sha256;
  std::string mode;  // "observe", "pin", "stabilize", as applied; empty: not prepared
  std::vector<RecordEdit> edits;
  std::string conversation;         // 32 hex digits; empty: not recognised
  std::string conversation_origin;  // the kind of key that recognised it
  std::optional<RecordPlan> plan;   // absent if nothing was planned
  std::optional<RecordHold> held_stale;
  // The longest lifetime in the provider's cache that the request asked for, else the provider's
  // own; 0: not known. It is not stored.
  int64_t cache_ttl_seconds = 0;
  reply::ReportedUsage reported;
  std::optional<reply::TokenUsage> usage;  // absent if unknown
  // What it would have been directly, by estimate; absent: as it is. It is not stored: its cost is.
  std::optional<reply::TokenUsage> direct_usage;
  std::string usage_unknown;  // the reason: "encoded", "media type", "not reported"
  std::string service_tier;
  std::optional<Cost> cost;                 // absent if unknown
  std::string price_date;                   // of the price row
  std::optional<RecordBreak> prefix_break;  // absent if it was not determined
  std::optional<TierTokens> tiers;          // of the local engine alone
  std::vector<SourceTokens> attribution;    // in prompt order; empty if unknown
  bool is_estimated = false;                // the attribution divides the usage by estimates
  // The parts that the attribution sums up, in prompt order. They are stored in a row of their own.
  std::vector<segment::RecordSegment> segments;
  // The source that all of its input counts as, of a request of the gateway's own; empty: it is a
  // client's. It is not stored: the attribution is.
  std::string purpose;
  // What it has ordered the provider to keep for rent. It is not stored: its cost is.
  std::optional<upstream::KeptPrefix> kept;
  std::string provider_reason;  // the provider's own reason for a miss
  // The span of the caller that this request belongs to; absent: it named none. It is not stored.
  std::optional<upstream::wire::TraceContext> caller_trace;
};

// Returns true if the request was answered with status 400 or above, or its answer was cut off.
bool IsFailed(const RequestRecord& record);

// Returns "NAME@VERSION" of its named prompt; empty: it has none.
std::string PromptVersionOf(const RequestRecord& record);

// Bounds of what is stored and shown, whatever a caller or an upstream has sent.
inline constexpr size_t kRecordTextBytesMax = 512;
inline constexpr size_t kRecordNameBytesMax = 64;  // of rules, causes and sources
inline constexpr size_t kRecordEditsMax = 64;
inline constexpr size_t kRecordSourcesMax = 16;
// Cuts the record to these bounds; a model's name, for example, may be as long as a body.
void BoundRecord(RequestRecord& record);

// Returns one JSON object within the bounds, as the API shows it: without its segments, unless it
// is to show them.
std::string RecordJson(const RequestRecord& record, bool with_segments = false);

// Returns a break as an object; empty if nothing is lost (its cause is "none").
std::string BreakJson(const RecordBreak& found);

// Returns the "kvgate" object that a caller who asked for an explanation gets with the answer.
std::string ExplanationJson(const RequestRecord& record);

// Returns for example "chat_completions".
std::string_view EndpointName(dialect::form::Endpoint endpoint);

}  // namespace kvgate::ledger
