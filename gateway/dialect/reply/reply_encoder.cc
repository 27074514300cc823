#include "gateway/dialect/reply/reply_encoder.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvgate::dialect::reply {

using form::Dialect;
using form::FinishReason;
using form::JsonWriter;

namespace {

void WriteTokenLogprob(const form::TokenLogprob& token, JsonWriter& json) {
  json.Key("token").String(token.bytes);
  json.Key("logprob").Number(token.logprob);
  json.Key("bytes").BeginArray();
  for (const char byte : token.bytes) json.Integer(static_cast<unsigned char>(byte));
  json.EndArray();
}

}  // namespace

ReplyEncoder::ReplyEncoder(ReplyOptions options) : options_(std::move(options)) {
  for (int i = 0; i < options_.num_choices; ++i) choices_.emplace_back(i);
}

void ReplyEncoder::Keep(const form::DeltaEvent& event) {
  ReplyChoice& choice = choices_[static_cast<size_t>(event.choice)];
  if (!options_.stream) {
    choice.Add(event);
  } else if (event.finish) {
    choice.Finish(*event.finish);
  }
}

std::vector<int> ReplyEncoder::EndOpenChoices(FinishReason reason) {
  std::vector<int> ended;
  for (ReplyChoice& choice : choices_) {
    if (choice.finish()) continue;
    choice.Finish(reason);
    ended.push_back(choice.index());
  }
  return ended;
}

std::string ReplyId(const ReplyOptions& options) {
  const auto prefix = [&]() -> std::string_view {
    switch (options.dialect) {
      case Dialect::kChatCompletions:
        return "chatcmpl-";
      case Dialect::kCompletions:
        return "cmpl-";
      case Dialect::kMessages:
        return "msg_";
      case Dialect::kResponses:
        return form::kResponsePrefix;
      case Dialect::kGemini:
        return "";
    }
    return "";
  };
  return fmt::format("{}{}", prefix(), options.request_id);
}

std::string_view FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kToolCalls:
      return "tool_calls";
    case FinishReason::kRefusal:
      return "content_filter";
  }
  return "stop";
}

void AppendSseEvent(std::string_view json, std::string& out) {
  out += "data: ";
  out += json;
  out += "\n\n";
}

void AppendNamedSseEvent(std::string_view name, std::string_view json, std::string& out) {
  out.append("event: ").append(name).append("\ndata: ").append(json).append("\n\n");
}

void WriteTokenDetails(std::span<const form::TokenDetail> tokens, JsonWriter& json) {
  json.BeginArray();
  for (const form::TokenDetail& detail : tokens) {
    json.BeginObject();
    WriteTokenLogprob(detail.token, json);
    json.Key("top_logprobs").BeginArray();
    for (const form::TokenLogprob& top : detail.top) {
      json.BeginObject();
      WriteTokenLogprob(top, json);
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray();
}

void WriteUsage(const form::CompletionStats& stats, JsonWriter& json) {
  json.BeginObject();
  json.Key("prompt_tokens").Integer(stats.num_prompt_tokens);
  json.Key("completion_tokens").Integer(stats.num_output_tokens);
  json.Key("total_tokens").Integer(stats.num_prompt_tokens + stats.num_output_tokens);
  json.Key("prompt_tokens_details").BeginObject();
  json.Key("cached_tokens").Integer(stats.num_cached_tokens);
  if (stats.num_written_tokens >= 0) {
    json.Key("cache_write_tokens").Integer(stats.num_written_tokens);
  }
  json.EndObject();
  json.Key("completion_tokens_details").BeginObject();
  json.Key("reasoning_tokens").Integer(stats.num_reasoning_tokens).EndObject();
  json.EndObject();
}

void WriteExplain(const form::CompletionStats& stats, std::string_view request_id,
                  JsonWriter& json) {
  const auto milliseconds = [](double seconds) { return seconds * 1e3; };
  json.BeginObject();
  json.Key("request_id").String(request_id);
  json.Key("cached_tokens").Integer(stats.num_cached_tokens);
  json.Key("tiers").BeginObject();
  json.Key("device").Integer(stats.num_device_tokens);
  json.Key("host").Integer(stats.num_host_tokens);
  json.Key("disk").Integer(stats.num_disk_tokens);
  json.Key("shared").Integer(stats.num_shared_tokens);
  json.EndObject();
  // The hit is a prefix, so it covers the segments in order.
  json.Key("attribution").BeginArray();
  int64_t cached = stats.num_cached_tokens;
  for (const form::PromptSegment& segment : stats.segments) {
    const int64_t covered = std::min(cached, segment.num_tokens);
    json.BeginObject().Key("source").String(segment.source);
    json.Key("tokens").Integer(segment.num_tokens).Key("cached_tokens").Integer(covered);
    json.EndObject();
    cached -= covered;
  }
  json.EndArray();
  json.Key("break");
  if (stats.prefix_break.empty()) {
    json.Null();
  } else {
    json.Raw(stats.prefix_break);
  }
  json.Key("restore_given_up");
  if (const form::GivenUpLoad& load = stats.given_up; load.reason.empty()) {
    json.Null();
  } else {
    json.BeginObject().Key("reason").String(load.reason).Key("tokens").Integer(load.num_tokens);
    json.Key("load_ms").Number(milliseconds(load.load_seconds));
    json.Key("compute_ms").Number(milliseconds(load.compute_seconds)).EndObject();
  }
  json.Key("ttft_ms").Number(milliseconds(stats.ttft_seconds));
  json.Key("timings").BeginObject();
  json.Key("queue_ms").Number(milliseconds(stats.queue_seconds));
  json.Key("restore_ms").Number(milliseconds(stats.restore_seconds));
  json.Key("prefill_ms").Number(milliseconds(stats.prefill_seconds));
  json.Key("total_ms").Number(milliseconds(stats.total_seconds));
  json.EndObject();
  // The local engine costs nothing per request.
  json.Key("cost").BeginObject().Key("usd").Number(0).EndObject();
  json.Key("logits_hash");
  if (stats.logits_hash) {
    json.String(fmt::format("{:016x}", *stats.logits_hash));
  } else {
    json.Null();
  }
  json.EndObject();
}

}  // namespace kvgate::dialect::reply
