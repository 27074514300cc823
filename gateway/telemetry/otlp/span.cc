#include "gateway/telemetry/otlp/span.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/digest.h"

namespace kvgate::telemetry::otlp {

using dialect::form::Endpoint;
using dialect::form::JsonWriter;
using ledger::RequestRecord;

namespace {

constexpr std::string_view kLocal = "local";
constexpr int kKindInternal = 1;
constexpr int kKindClient = 3;
constexpr int kStatusError = 2;

std::string_view OperationOf(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kChatCompletions:
    case Endpoint::kResponses:
    case Endpoint::kMessages:
      return "chat";
    case Endpoint::kGenerateContent:
      return "generate_content";
    case Endpoint::kCompletions:
      return "text_completion";
    case Endpoint::kEmbeddings:
      return "embeddings";
    default:
      return "";
  }
}

// The conventions' names where they differ from those of the price rows.
std::string ProviderName(const std::string& provider) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {kLocal, "kvgate"},        {"gemini", "gcp.gemini"}, {"google", "gcp.gemini"},
      {"mistral", "mistral_ai"}, {"xai", "x_ai"},          {"azure", "azure.ai.openai"},
      {"bedrock", "aws.bedrock"}};
  for (const auto& [ours, theirs] : kNames) {
    if (provider == ours) return std::string(theirs);
  }
  return provider.empty() ? "kvgate" : provider;
}

std::string ErrorTypeOf(const RequestRecord& record) {
  if (record.status >= 400) return fmt::format("{}", record.status);
  return record.outcome == "complete" ? "" : record.outcome;
}

class Attributes {
 public:
  explicit Attributes(JsonWriter& json) : json_(json) { json_.Key("attributes").BeginArray(); }
  ~Attributes() { json_.EndArray(); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  void Text(std::string_view key, std::string_view value) {
    if (!value.empty()) WriteAttribute(key, value, json_);
  }
  // OTLP's JSON writes 64-bit integers as text.
  void Integer(std::string_view key, int64_t value) {
    Begin(key);
    json_.Key("intValue").String(fmt::format("{}", value));
    End();
  }
  void Number(std::string_view key, double value) {
    Begin(key);
    json_.Key("doubleValue").Number(value);
    End();
  }
  void Bool(std::string_view key, bool value) {
    Begin(key);
    json_.Key("boolValue").Bool(value);
    End();
  }

 private:
  void Begin(std::string_view key) {
    json_.BeginObject().Key("key").String(key).Key("value").BeginObject();
  }
  void End() { json_.EndObject().EndObject(); }

  JsonWriter& json_;
};

void WriteUsage(const Span& span, Attributes& attributes) {
  if (span.usage) {
    const ledger::reply::TokenUsage& usage = *span.usage;
    const int64_t written = usage.cache_write_tokens + usage.cache_write_1h_tokens;
    // The input includes what was cached.
    attributes.Integer("gen_ai.usage.input_tokens", usage.input_tokens());
    attributes.Integer("gen_ai.usage.output_tokens", usage.output_tokens);
    attributes.Integer("gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens);
    // The name of today, and the one that it had before.
    attributes.Integer("gen_ai.usage.cache_write.input_tokens", written);
    attributes.Integer("gen_ai.usage.cache_creation.input_tokens", written);
    attributes.Integer("gen_ai.usage.reasoning.output_tokens", usage.reasoning_tokens);
  }
  if (span.cost) {
    attributes.Number("gen_ai.usage.cost", static_cast<double>(span.cost->nanodollars) / 1e9);
    attributes.Number("kvgate.cost.without_cache",
                      static_cast<double>(span.cost->uncached_nanodollars) / 1e9);
  }
}

}  // namespace

bool IsSpan(Endpoint endpoint) { return !OperationOf(endpoint).empty(); }

std::optional<Span> SpanOf(const RequestRecord& record) {
  const std::string_view operation = OperationOf(record.endpoint);
  if (operation.empty()) return std::nullopt;
  Span span{.id = record.id,
            .context = upstream::wire::OwnTrace(record.id, record.caller_trace),
            .parent_id = record.caller_trace ? record.caller_trace->span_id : "",
            .start_us = record.time_us,
            .duration_us = std::max<int64_t>(0, record.timings.total_us),
            .is_local = record.upstream == kLocal,
            .operation = operation,
            .provider = ProviderName(record.provider),
            .upstream = record.upstream,
            .model = record.model,
            .answered_by = record.answered_by,
            .tenant = record.tenant,
            .conversation = record.session.empty() ? record.conversation : record.session,
            .prompt = record.prompt_name.empty() ? record.prompt : record.prompt_name,
            .prompt_version = record.prompt_version,
            .status = record.status,
            .error_type = ErrorTypeOf(record),
            .error = record.error,
            .is_stream = record.stream,
            .queue_us = record.timings.queue_us,
            .tpot_us = record.timings.tpot_us,
            .usage = record.usage,
            .cost = record.cost};
  // The first byte of an answer that comes as a whole is no first chunk.
  if (record.stream || span.is_local) span.first_chunk_us = record.timings.ttft_us;
  if (record.prefix_break && record.prefix_break->lost_tokens > 0) {
    span.break_cause = record.prefix_break->cause;
    span.lost_tokens = record.prefix_break->lost_tokens;
  }
  return span;
}

void WriteAttribute(std::string_view key, std::string_view value, JsonWriter& json) {
  json.BeginObject().Key("key").String(key).Key("value").BeginObject();
  json.Key("stringValue").String(value).EndObject().EndObject();
}

void WriteResource(std::string_view service_name, JsonWriter& json) {
  json.Key("resource").BeginObject().Key("attributes").BeginArray();
  WriteAttribute("service.name", service_name, json);
  WriteAttribute("service.version", KVGATE_VERSION, json);
  json.EndArray().EndObject();
}

void WriteScope(JsonWriter& json) {
  json.Key("scope").BeginObject().Key("name").String("kvgate");
  json.Key("version").String(KVGATE_VERSION).EndObject();
}

void WriteSpan(const Span& span, JsonWriter& json) {
  json.BeginObject().Key("traceId").String(span.context.trace_id);
  json.Key("spanId").String(span.context.span_id);
  if (!span.parent_id.empty()) json.Key("parentSpanId").String(span.parent_id);
  const std::string name = fmt::format("{} {}", span.operation, span.model);
  json.Key("name").String(name).Key("kind");
  json.Integer(span.is_local ? kKindInternal : kKindClient);
  json.Key("startTimeUnixNano").String(fmt::format("{}000", span.start_us));
  json.Key("endTimeUnixNano").String(fmt::format("{}000", span.start_us + span.duration_us));
  {
    Attributes attributes(json);
    attributes.Text("gen_ai.operation.name", span.operation);
    attributes.Text("gen_ai.provider.name", span.provider);
    attributes.Text("gen_ai.request.model", span.model);
    attributes.Text("gen_ai.response.model", span.answered_by);
    attributes.Text("gen_ai.conversation.id", span.conversation);
    attributes.Text("gen_ai.prompt.name", span.prompt);
    attributes.Bool("gen_ai.request.stream", span.is_stream);
    if (span.first_chunk_us >= 0) {
      attributes.Number("gen_ai.response.time_to_first_chunk",
                        static_cast<double>(span.first_chunk_us) / 1e6);
    }
    WriteUsage(span, attributes);
    attributes.Text("error.type", span.error_type);
    if (span.status > 0) attributes.Integer("http.response.status_code", span.status);
    attributes.Text("kvgate.request_id", span.id);
    attributes.Text("kvgate.upstream", span.upstream);
    attributes.Text("kvgate.tenant", span.tenant);
    attributes.Text("kvgate.prompt.version", span.prompt_version);
    if (span.queue_us >= 0) {
      attributes.Number("kvgate.queue_time", static_cast<double>(span.queue_us) / 1e6);
    }
    attributes.Text("kvgate.prefix_break.cause", span.break_cause);
    if (span.lost_tokens > 0) attributes.Integer("kvgate.prefix_break.tokens", span.lost_tokens);
  }
  json.Key("status").BeginObject();
  if (!span.error_type.empty()) {
    json.Key("code").Integer(kStatusError).Key("message").String(span.error);
  }
  json.EndObject().EndObject();
}

}  // namespace kvgate::telemetry::otlp
