#include "gateway/ledger/request_record.h"

#include <algorithm>
#include <string_view>

#include "base/digest.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/ledger/segment/segment_format.h"

namespace kvgate::ledger {

using dialect::form::Endpoint;

namespace {

using dialect::form::JsonWriter;

std::string_view Cut(std::string_view text) { return text.substr(0, kRecordTextBytesMax); }
std::string_view CutName(std::string_view name) { return name.substr(0, kRecordNameBytesMax); }

void WriteText(std::string_view key, std::string_view text, JsonWriter& json) {
  if (!text.empty()) json.Key(key).String(Cut(text));
}

void WriteTime(std::string_view key, int64_t microseconds, JsonWriter& json) {
  if (microseconds >= 0) json.Key(key).Integer(microseconds);
}

void WriteDigest(std::string_view key, const std::optional<PrefixDigest>& digest,
                 JsonWriter& json) {
  if (!digest) return;
  json.Key(key).String(ToHex(digest->bytes));
}

void WriteUsage(const RequestRecord& record, JsonWriter& json) {
  json.Key("usage");
  if (!record.usage) {
    json.Null().Key("usage_unknown").String(record.usage_unknown);
    return;
  }
  const reply::TokenUsage& usage = *record.usage;
  json.BeginObject().Key("input_tokens").Integer(usage.input_tokens());
  json.Key("uncached_tokens").Integer(usage.uncached_tokens);
  json.Key("cache_read_tokens").Integer(usage.cache_read_tokens);
  json.Key("cache_write_tokens").Integer(usage.cache_write_tokens);
  json.Key("cache_write_1h_tokens").Integer(usage.cache_write_1h_tokens);
  json.Key("output_tokens").Integer(usage.output_tokens);
  json.Key("reasoning_tokens").Integer(usage.reasoning_tokens);
  json.Key("reported").BeginObject();
  for (size_t i = 0; i < reply::kNumUsageFields; ++i) {
    const auto field = static_cast<reply::UsageField>(i);
    if (const auto value = record.reported.Get(field)) {
      json.Key(reply::UsageFieldName(field)).Integer(*value);
    }
  }
  json.EndObject().EndObject();
}

void WriteCost(const RequestRecord& record, JsonWriter& json) {
  json.Key("cost");
  if (!record.cost) {
    json.Null();
    return;
  }
  json.BeginObject().Key("nanodollars").Integer(record.cost->nanodollars);
  json.Key("uncached_nanodollars").Integer(record.cost->uncached_nanodollars);
  json.Key("direct_nanodollars").Integer(record.cost->direct_nanodollars);
  json.Key("price_date").String(Cut(record.price_date)).EndObject();
}

// Writes what was done to the request, and for which conversation.
void WritePreparation(const RequestRecord& record, JsonWriter& json) {
  WriteText("mode", CutName(record.mode), json);
  json.Key("edits").BeginArray();
  for (size_t i = 0; i < std::min(record.edits.size(), kRecordEditsMax); ++i) {
    json.BeginObject().Key("rule").String(CutName(record.edits[i].rule));
    json.Key("count").Integer(record.edits[i].count).EndObject();
  }
  json.EndArray();
  if (!record.conversation.empty()) {
    json.Key("conversation").BeginObject().Key("id").String(CutName(record.conversation));
    json.Key("origin").String(CutName(record.conversation_origin)).EndObject();
  }
  if (record.held_stale) {
    json.Key("held_stale").BeginObject().Key("lines").Integer(record.held_stale->num_lines);
    json.Key("seconds").Integer(record.held_stale->seconds).EndObject();
  }
  if (!record.plan) return;
  json.Key("plan").BeginObject().Key("reason").String(Cut(record.plan->reason));
  json.Key("expected_reuse").Number(record.plan->expected_reuse);
  json.Key("markers").Integer(record.plan->num_breakpoints).EndObject();
}

void WriteBreak(const RecordBreak& found, JsonWriter& json) {
  json.BeginObject().Key("cause").String(CutName(found.cause));
  WriteText("path", found.path, json);
  WriteText("volatile_kind", CutName(found.volatile_kind), json);
  WriteText("before", found.before, json);
  WriteText("after", found.after, json);
  json.Key("reusable_tokens").Integer(found.reusable_tokens);
  json.Key("lost_tokens").Integer(found.lost_tokens);
  json.Key("lost_nanodollars").Integer(found.lost_nanodollars);
  WriteText("verdict", found.verdict, json);
  json.EndObject();
}

void WriteAttribution(const RequestRecord& record, JsonWriter& json) {
  const std::vector<SourceTokens>& sources = record.attribution;
  json.Key("estimated").Bool(record.is_estimated).Key("attribution").BeginObject();
  for (size_t i = 0; i < std::min(sources.size(), kRecordSourcesMax); ++i) {
    json.Key(CutName(sources[i].source)).BeginObject();
    json.Key("cached").Integer(sources[i].cached).Key("written").Integer(sources[i].written);
    json.Key("uncached").Integer(sources[i].uncached);
    json.Key("nanodollars").Integer(sources[i].nanodollars).EndObject();
  }
  json.EndObject();
}

void WriteTimings(const RequestTimings& timings, JsonWriter& json) {
  json.Key("timings").BeginObject();
  WriteTime("queue_us", timings.queue_us, json);
  WriteTime("first_byte_us", timings.first_byte_us, json);
  WriteTime("ttft_us", timings.ttft_us, json);
  WriteTime("prefill_us", timings.prefill_us, json);
  WriteTime("decode_us", timings.decode_us, json);
  WriteTime("tpot_us", timings.tpot_us, json);
  WriteTime("itl_us_max", timings.itl_us_max, json);
  WriteTime("total_us", timings.total_us, json);
  json.EndObject();
}

// Writes who asked for what, and who answered.
void WriteParties(const RequestRecord& record, JsonWriter& json) {
  json.Key("dialect").String(dialect::form::ApiName(record.dialect));
  json.Key("endpoint").String(EndpointName(record.endpoint));
  json.Key("path").String(Cut(record.path));
  json.Key("upstream").String(Cut(record.upstream));
  json.Key("provider").String(Cut(record.provider));
  json.Key("model").String(Cut(record.model));
  WriteText("asked_model", record.asked_model, json);
  WriteText("answered_by", record.answered_by, json);
  json.Key("tenant").String(Cut(record.tenant));
  WriteText("key", record.key, json);
  WriteText("session", record.session, json);
  WriteText("prompt", CutName(record.prompt), json);
  if (!record.prompt_name.empty()) {
    json.Key("named_prompt").BeginObject().Key("name").String(CutName(record.prompt_name));
    json.Key("version").String(CutName(record.prompt_version)).EndObject();
  }
}

}  // namespace

bool IsFailed(const RequestRecord& record) {
  return record.status >= 400 || record.outcome != "complete";
}

std::string PromptVersionOf(const RequestRecord& record) {
  return record.prompt_name.empty() ? "" : record.prompt_name + "@" + record.prompt_version;
}

void BoundRecord(RequestRecord& record) {
  const auto cut = [](std::string& text, size_t bytes_max) {
    if (text.size() > bytes_max) text.resize(bytes_max);
  };
  for (std::string* text : {&record.model, &record.asked_model, &record.answered_by, &record.path,
                            &record.error, &record.upstream_request_id, &record.tenant, &record.key,
                            &record.session, &record.provider_reason}) {
    cut(*text, kRecordTextBytesMax);
  }
  if (record.plan) cut(record.plan->reason, kRecordTextBytesMax);
  if (record.prefix_break) {
    RecordBreak& found = *record.prefix_break;
    for (std::string* text : {&found.path, &found.before, &found.after, &found.verdict}) {
      cut(*text, kRecordTextBytesMax);
    }
    for (std::string* name : {&found.cause, &found.volatile_kind}) cut(*name, kRecordNameBytesMax);
  }
  if (record.edits.size() > kRecordEditsMax) record.edits.resize(kRecordEditsMax);
  for (RecordEdit& edit : record.edits) cut(edit.rule, kRecordNameBytesMax);
  if (record.attribution.size() > kRecordSourcesMax) record.attribution.resize(kRecordSourcesMax);
  for (SourceTokens& tokens : record.attribution) cut(tokens.source, kRecordNameBytesMax);
  for (std::string* name : {&record.mode, &record.conversation, &record.conversation_origin,
                            &record.prompt, &record.prompt_name, &record.prompt_version}) {
    cut(*name, kRecordNameBytesMax);
  }
}

std::string BreakJson(const RecordBreak& found) {
  std::string out;
  JsonWriter json(out);
  if (found.cause != "none") WriteBreak(found, json);
  return out;
}

std::string ExplanationJson(const RequestRecord& record) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("request_id").String(record.id);
  json.Key("cached_tokens");
  if (record.usage) {
    json.Integer(record.usage->cache_read_tokens);
  } else {
    json.Null();
  }
  // Only the engine has tiers; an upstream reports none.
  json.Key("tiers").Null();
  json.Key("attribution").BeginArray();
  for (const SourceTokens& tokens : record.attribution) {
    json.BeginObject().Key("source").String(CutName(tokens.source));
    json.Key("tokens").Integer(tokens.cached + tokens.written + tokens.uncached);
    json.Key("cached_tokens").Integer(tokens.cached);
    json.Key("written_tokens").Integer(tokens.written).EndObject();
  }
  json.EndArray();
  const std::string found = record.prefix_break ? BreakJson(*record.prefix_break) : "";
  json.Key("break").Raw(found.empty() ? "null" : found);
  WritePreparation(record, json);
  json.Key("ttft_ms");
  if (record.timings.ttft_us >= 0) {
    json.Number(static_cast<double>(record.timings.ttft_us) / 1e3);
  } else {
    json.Null();
  }
  WriteCost(record, json);
  json.EndObject();
  return out;
}

std::string_view EndpointName(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kChatCompletions:
      return "chat_completions";
    case Endpoint::kCompletions:
      return "completions";
    case Endpoint::kResponses:
      return "responses";
    case Endpoint::kEmbeddings:
      return "embeddings";
    case Endpoint::kMessages:
      return "messages";
    case Endpoint::kCountTokens:
      return "count_tokens";
    case Endpoint::kModels:
      return "models";
    case Endpoint::kGenerateContent:
      return "generate_content";
    case Endpoint::kCountContent:
      return "count_content";
    case Endpoint::kOther:
      break;
  }
  return "other";
}

std::string RecordJson(const RequestRecord& record, bool with_segments) {
  std::string out;
  out.reserve(1024);
  JsonWriter json(out);
  json.BeginObject().Key("id").String(Cut(record.id)).Key("time_us").Integer(record.time_us);
  WriteParties(record, json);
  json.Key("status").Integer(record.status).Key("outcome").String(record.outcome);
  if (!record.error.empty()) json.Key("error").String(Cut(record.error));
  json.Key("stream").Bool(record.stream).Key("attempts").Integer(record.num_attempts);
  WriteText("upstream_request_id", record.upstream_request_id, json);
  WriteTimings(record.timings, json);
  json.Key("bytes").BeginObject();
  json.Key("received").Unsigned(record.received_bytes).Key("sent").Unsigned(record.sent_bytes);
  json.Key("answer").Unsigned(record.answer_bytes).EndObject();
  json.Key("sha256").BeginObject();
  WriteDigest("received", record.received_sha256, json);
  WriteDigest("sent", record.sent_sha256, json);
  json.EndObject();
  WritePreparation(record, json);
  WriteUsage(record, json);
  WriteText("service_tier", record.service_tier, json);
  WriteCost(record, json);
  if (record.tiers) {
    json.Key("tiers").BeginObject().Key("device").Integer(record.tiers->device);
    json.Key("host").Integer(record.tiers->host).Key("disk").Integer(record.tiers->disk);
    json.Key("shared").Integer(record.tiers->shared);
    json.Key("computed").Integer(record.tiers->computed).EndObject();
  }
  if (!record.attribution.empty()) WriteAttribution(record, json);
  if (with_segments) {
    json.Key("segments");
    segment::WriteSegments(record.segments, json);
  }
  if (record.prefix_break) {
    json.Key("break");
    WriteBreak(*record.prefix_break, json);
  }
  WriteText("provider_reason", record.provider_reason, json);
  json.EndObject();
  return out;
}

}  // namespace kvgate::ledger
