#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/digest.h"
#include "gateway/dialect/form/errors.h"
#include "gateway/dialect/form/json_text.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/dialect/messages/messages.h"

namespace kvgate::dialect::messages {

using reply::AppendNamedSseEvent;
using reply::ReplyBlock;
using reply::ReplyEncoder;
using reply::ReplyId;
using reply::ReplyOptions;
using reply::WriteExplain;

using form::DeltaKind;
using form::FinishReason;
using form::JsonWriter;

namespace {

constexpr std::string_view kPing = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

// Thinking carries a signature that clients store and send back. The local engine does not check
// it.
std::string SignatureOf(std::string_view thinking) {
  return "kvgate-" + ToHex(Sha256().Update(thinking).Finish().bytes);
}

std::string_view StopReason(FinishReason reason, const std::string& stop_string) {
  switch (reason) {
    case FinishReason::kStop:
      return stop_string.empty() ? "end_turn" : "stop_sequence";
    case FinishReason::kLength:
      return "max_tokens";
    case FinishReason::kToolCalls:
      return "tool_use";
    case FinishReason::kRefusal:
      return "refusal";
  }
  return "end_turn";
}

class MessagesEncoder final : public ReplyEncoder {
 public:
  using ReplyEncoder::ReplyEncoder;

  void OnStart(const form::PromptUsage& usage, std::string& out) override {
    if (!options_.stream) return;
    Event event(*this, "message_start");
    event.json.Key("message");
    BeginMessage(event.json);
    event.json.Key("content").BeginArray().EndArray();
    event.json.Key("stop_reason").Null().Key("stop_sequence").Null();
    event.json.Key("usage");
    WriteMessagesUsage(usage, 0, event.json);
    event.json.EndObject();
    event.Send(out);
  }

  void OnDelta(const form::DeltaEvent& delta, std::string& out) override {
    Keep(delta);
    if (!options_.stream) return;
    switch (delta.kind) {
      case DeltaKind::kText:
      case DeltaKind::kReasoning:
        if (!delta.text.empty()) {
          if (open_ != delta.kind) Open(delta, out);
          if (delta.kind == DeltaKind::kReasoning) thinking_ += delta.text;
          WriteDelta(delta, out);
        }
        if (!delta.seal.empty()) Seal(delta.seal, out);
        break;
      case DeltaKind::kCall:
        Open(delta, out);
        break;
      case DeltaKind::kArguments:
        WriteDelta(delta, out);
        break;
      case DeltaKind::kCallEnd:
        Close(out);
        break;
    }
  }

  void OnFinish(const form::FinishEvent& event, std::string& out) override {
    if (options_.stream && event.error) {
      AppendNamedSseEvent("error",
                          form::EncodeMessagesError({.status = form::HttpStatus(event.error->code),
                                                     .message = form::PublicMessage(*event.error),
                                                     .request_id = options_.request_id}),
                          out);
      return;
    }
    EndOpenChoices(event.reason);
    if (!options_.stream) {
      WriteBody(event, out);
      return;
    }
    Close(out);
    Event last(*this, "message_delta");
    last.json.Key("delta").BeginObject();
    WriteStop(event, last.json);
    last.json.EndObject().Key("usage");
    WriteFinalUsage(event.stats, last.json);
    WriteExplainIf(event.stats, last.json);
    last.Send(out);
    Event(*this, "message_stop").Send(out);
  }

  std::string_view ping() const override { return kPing; }

 private:
  // An event {"type":NAME, …}.
  struct Event {
    Event(const MessagesEncoder&, std::string_view event_name) : name(event_name) {
      json.BeginObject().Key("type").String(name);
    }
    void Send(std::string& out) {
      json.EndObject();
      AppendNamedSseEvent(name, text, out);
    }
    std::string_view name;
    std::string text;
    JsonWriter json{text};
  };

  void BeginMessage(JsonWriter& json) const {
    json.BeginObject().Key("id").String(ReplyId(options_)).Key("type").String("message");
    json.Key("role").String("assistant").Key("model").String(options_.model);
  }

  void WriteStop(const form::FinishEvent& event, JsonWriter& json) const {
    json.Key("stop_reason").String(StopReason(event.reason, event.stop_string));
    json.Key("stop_sequence");
    const bool stopped = event.reason == FinishReason::kStop && !event.stop_string.empty();
    stopped ? json.String(event.stop_string) : json.Null();
  }

  // The dialect counts cache reads, cache writes and other input separately. The tokens up to the
  // caller's last cache breakpoint count as written; what the engine caches beyond it is not
  // reported.
  void WriteMessagesUsage(const form::PromptUsage& usage, int64_t num_output_tokens,
                          JsonWriter& json) const {
    const int64_t read = usage.num_cached_tokens;
    const int64_t written = std::max<int64_t>(usage.num_marked_tokens - read, 0);
    const bool lasting = options_.cache_ttl_seconds >= form::kLongTtlSeconds;
    json.BeginObject().Key("input_tokens").Integer(usage.num_prompt_tokens - read - written);
    json.Key("cache_creation_input_tokens").Integer(written);
    json.Key("cache_read_input_tokens").Integer(read);
    json.Key("cache_creation").BeginObject();
    json.Key("ephemeral_5m_input_tokens").Integer(lasting ? 0 : written);
    json.Key("ephemeral_1h_input_tokens").Integer(lasting ? written : 0).EndObject();
    json.Key("output_tokens").Integer(num_output_tokens);
    json.Key("service_tier").String("standard").EndObject();
  }

  void WriteFinalUsage(const form::CompletionStats& stats, JsonWriter& json) const {
    WriteMessagesUsage({.num_prompt_tokens = stats.num_prompt_tokens,
                        .num_cached_tokens = stats.num_cached_tokens,
                        .num_marked_tokens = stats.num_marked_tokens},
                       stats.num_output_tokens, json);
  }

  void WriteExplainIf(const form::CompletionStats& stats, JsonWriter& json) const {
    if (!options_.explain) return;
    json.Key("kvgate");
    WriteExplain(stats, options_.request_id, json);
  }

  void Open(const form::DeltaEvent& delta, std::string& out) {
    Close(out);
    open_ = delta.kind;
    Event event(*this, "content_block_start");
    event.json.Key("index").Integer(index_).Key("content_block").BeginObject();
    if (delta.kind == DeltaKind::kCall) {
      event.json.Key("type").String("tool_use").Key("id").String(delta.call_id);
      event.json.Key("name").String(delta.text).Key("input").BeginObject().EndObject();
    } else if (delta.kind == DeltaKind::kReasoning) {
      event.json.Key("type").String("thinking").Key("thinking").String("");
      event.json.Key("signature").String("");
    } else {
      event.json.Key("type").String("text").Key("text").String("");
    }
    event.json.EndObject();
    event.Send(out);
  }

  // One field of the open block: {"type":TYPE,FIELD:TEXT}.
  struct BlockDelta {
    std::string_view type;
    std::string_view field;
    std::string_view text;
  };
  void SendDelta(const BlockDelta& delta, std::string& out) const {
    Event event(*this, "content_block_delta");
    event.json.Key("index").Integer(index_).Key("delta").BeginObject();
    event.json.Key("type").String(delta.type).Key(delta.field).String(delta.text).EndObject();
    event.Send(out);
  }

  void WriteDelta(const form::DeltaEvent& delta, std::string& out) const {
    if (delta.kind == DeltaKind::kArguments) {
      SendDelta({.type = "input_json_delta", .field = "partial_json", .text = delta.text}, out);
    } else if (delta.kind == DeltaKind::kReasoning) {
      SendDelta({.type = "thinking_delta", .field = "thinking", .text = delta.text}, out);
    } else {
      SendDelta({.type = "text_delta", .field = "text", .text = delta.text}, out);
    }
  }

  void Close(std::string& out) {
    if (!open_) return;
    if (*open_ == DeltaKind::kReasoning) {
      Sign(SignatureOf(std::exchange(thinking_, {})), out);
    }
    CloseSigned(out);
  }

  void Sign(std::string_view signature, std::string& out) const {
    SendDelta({.type = "signature_delta", .field = "signature", .text = signature}, out);
  }

  // Ends the open thinking block with the seal. If none is open, the seal is thinking that cannot
  // be read and gets a redacted block.
  void Seal(std::string_view seal, std::string& out) {
    if (open_ == DeltaKind::kReasoning) {
      thinking_.clear();
      Sign(seal, out);
    } else {
      Close(out);
      Event event(*this, "content_block_start");
      event.json.Key("index").Integer(index_).Key("content_block").BeginObject();
      event.json.Key("type").String("redacted_thinking").Key("data").String(seal).EndObject();
      event.Send(out);
    }
    CloseSigned(out);
  }

  void CloseSigned(std::string& out) {
    open_.reset();
    Event event(*this, "content_block_stop");
    event.json.Key("index").Integer(index_++);
    event.Send(out);
  }

  static void WriteBlock(const ReplyBlock& block, JsonWriter& json) {
    json.BeginObject();
    if (block.kind == DeltaKind::kCall) {
      json.Key("type").String("tool_use").Key("id").String(block.call_id);
      json.Key("name").String(block.name).Key("input").Raw(form::AsObject(block.text));
    } else if (block.kind == DeltaKind::kReasoning && block.text.empty()) {
      json.Key("type").String("redacted_thinking").Key("data").String(block.seal);
    } else if (block.kind == DeltaKind::kReasoning) {
      json.Key("type").String("thinking").Key("thinking").String(block.text);
      json.Key("signature").String(block.seal.empty() ? SignatureOf(block.text) : block.seal);
    } else {
      json.Key("type").String("text").Key("text").String(block.text);
    }
    json.EndObject();
  }

  void WriteBody(const form::FinishEvent& event, std::string& out) const {
    JsonWriter json(out);
    BeginMessage(json);
    json.Key("content").BeginArray();
    for (const ReplyBlock& block : choices_.front().blocks()) WriteBlock(block, json);
    json.EndArray();
    WriteStop(event, json);
    json.Key("usage");
    WriteFinalUsage(event.stats, json);
    WriteExplainIf(event.stats, json);
    json.EndObject();
  }

  std::optional<DeltaKind> open_;  // kind of the open block
  int index_ = 0;                  // index of the open or the next block
  std::string thinking_;           // text of the open thinking block
};

}  // namespace

std::unique_ptr<ReplyEncoder> MakeMessagesEncoder(ReplyOptions options) {
  return std::make_unique<MessagesEncoder>(std::move(options));
}

std::string EncodeTokenCount(int64_t num_tokens) {
  std::string out;
  JsonWriter(out).BeginObject().Key("input_tokens").Integer(num_tokens).EndObject();
  return out;
}

}  // namespace kvgate::dialect::messages
