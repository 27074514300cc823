// Span: what a collector is told of one request, in the words of OpenTelemetry's conventions for
// generative AI. It holds names, numbers and times, and no prompt text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/dialect/form/dialect.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/ledger/request_record.h"
#include "gateway/upstream/wire/trace_context.h"

namespace kvgate::telemetry::otlp {

struct Span {
  std::string id = {};  // the request's: 24 hex digits
  upstream::wire::TraceContext context = {};
  std::string parent_id = {};  // the caller's span; empty: it begins its trace
  int64_t start_us = 0;
  int64_t duration_us = 0;
  bool is_local = false;
  std::string_view operation = {};  // a literal: "chat", "text_completion", "embeddings"
  std::string provider = {};        // as the conventions name it
  std::string upstream = {};
  std::string model = {};        // as asked for
  std::string answered_by = {};  // the model that answered; empty: not known
  std::string tenant = {};
  std::string conversation = {};    // the session or conversation; empty: none
  std::string prompt = {};          // the name of the system prompt, else what tells it apart
  std::string prompt_version = {};  // of a prompt of the gateway; empty: it is none
  int status = 0;
  std::string error_type = {};  // empty: it succeeded
  std::string error = {};       // one sentence
  bool is_stream = false;
  int64_t queue_us = -1;
  int64_t first_chunk_us = -1;  // since the start
  int64_t tpot_us = -1;         // time per output token after the first
  std::optional<ledger::reply::TokenUsage> usage = {};
  std::optional<ledger::Cost> cost = {};
  std::string break_cause = {};  // empty: nothing is lost
  int64_t lost_tokens = 0;
};

// Returns true if requests to this endpoint are spans: those that ask a model for something.
bool IsSpan(dialect::form::Endpoint endpoint);
// Returns nullopt for a request that is none. A span that its caller does not sample is returned
// too, because it counts in the metrics.
std::optional<Span> SpanOf(const ledger::RequestRecord& record);

// Writes one element of "spans" in OTLP's JSON.
void WriteSpan(const Span& span, dialect::form::JsonWriter& json);

// Writes the members "scope" and "resource" that stand beside spans and metrics.
void WriteResource(std::string_view service_name, dialect::form::JsonWriter& json);
void WriteScope(dialect::form::JsonWriter& json);
// Writes {"key": …, "value": {…}}.
void WriteAttribute(std::string_view key, std::string_view value, dialect::form::JsonWriter& json);

}  // namespace kvgate::telemetry::otlp
