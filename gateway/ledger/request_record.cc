#include "gateway/ledger/request_record.h"

#include <string_view>

#include <kvgate/digest.h>

#include "gateway/protocol/json_writer.h"

namespace kvgate::ledger {
namespace {

using protocol::JsonWriter;

constexpr size_t kTextBytesMax = 512;

std::string_view Cut(std::string_view text) { return text.substr(0, kTextBytesMax); }

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
  const TokenUsage& usage = *record.usage;
  json.BeginObject().Key("input_tokens").Integer(usage.input_tokens());
  json.Key("uncached_tokens").Integer(usage.uncached_tokens);
  json.Key("cache_read_tokens").Integer(usage.cache_read_tokens);
  json.Key("cache_write_tokens").Integer(usage.cache_write_tokens);
  json.Key("cache_write_1h_tokens").Integer(usage.cache_write_1h_tokens);
  json.Key("output_tokens").Integer(usage.output_tokens);
  json.Key("reasoning_tokens").Integer(usage.reasoning_tokens);
  json.Key("reported").BeginObject();
  for (size_t i = 0; i < kNumUsageFields; ++i) {
    const auto field = static_cast<UsageField>(i);
    if (const auto value = record.reported.Get(field)) {
      json.Key(UsageFieldName(field)).Integer(*value);
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
  json.Key("price_date").String(Cut(record.price_date)).EndObject();
}

}  // namespace

std::string_view EndpointName(upstream::Endpoint endpoint) {
  switch (endpoint) {
    case upstream::Endpoint::kChatCompletions:
      return "chat_completions";
    case upstream::Endpoint::kCompletions:
      return "completions";
    case upstream::Endpoint::kResponses:
      return "responses";
    case upstream::Endpoint::kEmbeddings:
      return "embeddings";
    case upstream::Endpoint::kMessages:
      return "messages";
    case upstream::Endpoint::kCountTokens:
      return "count_tokens";
    case upstream::Endpoint::kModels:
      return "models";
    case upstream::Endpoint::kOther:
      break;
  }
  return "other";
}

std::string RecordJson(const RequestRecord& record) {
  std::string out;
  out.reserve(1024);
  JsonWriter json(out);
  json.BeginObject().Key("id").String(Cut(record.id)).Key("time_us").Integer(record.time_us);
  json.Key("dialect").String(upstream::DialectName(record.dialect));
  json.Key("endpoint").String(EndpointName(record.endpoint));
  json.Key("path").String(Cut(record.path));
  json.Key("upstream").String(Cut(record.upstream));
  json.Key("provider").String(Cut(record.provider));
  json.Key("model").String(Cut(record.model));
  if (!record.answered_by.empty()) json.Key("answered_by").String(Cut(record.answered_by));
  json.Key("tenant").String(Cut(record.tenant));
  json.Key("status").Integer(record.status).Key("outcome").String(record.outcome);
  if (!record.error.empty()) json.Key("error").String(Cut(record.error));
  json.Key("stream").Bool(record.stream).Key("attempts").Integer(record.num_attempts);
  if (!record.upstream_request_id.empty()) {
    json.Key("upstream_request_id").String(Cut(record.upstream_request_id));
  }
  json.Key("timings").BeginObject();
  WriteTime("queue_us", record.timings.queue_us, json);
  WriteTime("first_byte_us", record.timings.first_byte_us, json);
  WriteTime("ttft_us", record.timings.ttft_us, json);
  WriteTime("total_us", record.timings.total_us, json);
  json.EndObject().Key("bytes").BeginObject();
  json.Key("received").Unsigned(record.received_bytes).Key("sent").Unsigned(record.sent_bytes);
  json.Key("answer").Unsigned(record.answer_bytes).EndObject();
  json.Key("sha256").BeginObject();
  WriteDigest("received", record.received_sha256, json);
  WriteDigest("sent", record.sent_sha256, json);
  json.EndObject().Key("edits").BeginArray();
  for (const std::string& edit : record.edits) json.String(Cut(edit));
  json.EndArray();
  WriteUsage(record, json);
  if (!record.service_tier.empty()) json.Key("service_tier").String(Cut(record.service_tier));
  WriteCost(record, json);
  json.EndObject();
  return out;
}

}  // namespace kvgate::ledger
