#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "gateway/dialect/form/errors.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/dialect/responses/responses.h"

namespace kvgate::dialect::responses {

using reply::AppendNamedSseEvent;
using reply::ReplyBlock;
using reply::ReplyChoice;
using reply::ReplyEncoder;
using reply::ReplyId;
using reply::ReplyOptions;
using reply::ResponseShape;
using reply::WriteExplain;
using reply::WriteTokenDetails;

using form::DeltaKind;
using form::FinishEvent;
using form::FinishReason;
using form::JsonWriter;
using responses::ResponsesItem;

namespace {

constexpr std::string_view kCompleted = "completed";
constexpr std::string_view kIncomplete = "incomplete";
constexpr std::string_view kInProgress = "in_progress";

std::string_view TypeOf(const ReplyBlock& block) {
  if (block.kind == DeltaKind::kReasoning) return "reasoning";
  if (block.kind == DeltaKind::kText) return "message";
  return block.is_custom ? "custom_tool_call" : "function_call";
}

// Returns the status of an answer, and of its last item, by how it ended; one that was cut off is
// incomplete.
std::string_view StatusOf(FinishReason reason) {
  return reason == FinishReason::kLength || reason == FinishReason::kRefusal ? kIncomplete
                                                                             : kCompleted;
}

// An item of the answer: a block with its id and tokens.
struct Item {
  const ReplyBlock& block;
  std::string id;
  std::span<const form::TokenDetail> tokens;
};

// An answer without text is an empty message, because clients expect one.
const ReplyBlock& EmptyBlock() {
  static const ReplyBlock empty;
  return empty;
}

size_t NumItems(const ReplyChoice& answer) { return std::max<size_t>(answer.blocks().size(), 1); }

Item ItemOf(const ReplyOptions& options, const ReplyChoice& answer, size_t index) {
  const auto& blocks = answer.blocks();
  const ReplyBlock& block = blocks.empty() ? EmptyBlock() : blocks[index];
  Item item{.block = block,
            .id = responses::AnswerItemId(TypeOf(block), options.request_id, index),
            .tokens = {}};
  if (options.logprobs && block.kind == DeltaKind::kText) {
    const size_t begin = index == 0 ? 0 : blocks[index - 1].tokens_end;
    item.tokens = std::span(answer.tokens()).subspan(begin, block.tokens_end - begin);
  }
  return item;
}

void WriteTextPart(const Item& item, std::string_view text, JsonWriter& json) {
  json.BeginObject().Key("type").String("output_text").Key("text").String(text);
  json.Key("annotations").BeginArray().EndArray().Key("logprobs");
  WriteTokenDetails(text.empty() ? std::span<const form::TokenDetail>() : item.tokens, json);
  json.EndObject();
}

void WriteReasoningPart(std::string_view type, std::string_view text, JsonWriter& json) {
  json.BeginObject().Key("type").String(type).Key("text").String(text).EndObject();
}

// Writes the content part of an item with the given text.
void WritePart(const Item& item, std::string_view text, JsonWriter& json) {
  if (item.block.kind == DeltaKind::kReasoning) {
    WriteReasoningPart("reasoning_text", text, json);
  } else {
    WriteTextPart(item, text, json);
  }
}

void WriteReasoning(const ResponseShape& shape, const Item& item, bool begun, JsonWriter& json) {
  json.Key("summary").BeginArray();
  if (shape.summary && !begun) WriteReasoningPart("summary_text", item.block.text, json);
  json.EndArray().Key("content").BeginArray();
  if (!begun) WriteReasoningPart("reasoning_text", item.block.text, json);
  json.EndArray().Key("encrypted_content");
  if (!item.block.seal.empty() && !begun) {
    json.String(item.block.seal);
  } else if (shape.encrypted_reasoning && !begun) {
    json.String(responses::SealReasoning(item.block.text));
  } else {
    json.Null();
  }
}

// With `status` kInProgress the item is written as it begins, without content.
void WriteItem(const ReplyOptions& options, const Item& item, std::string_view status,
               JsonWriter& json) {
  const bool begun = status == kInProgress;
  const ReplyBlock& block = item.block;
  json.BeginObject().Key("id").String(item.id).Key("type").String(TypeOf(block));
  json.Key("status").String(status);
  if (block.kind == DeltaKind::kReasoning) {
    WriteReasoning(options.response, item, begun, json);
  } else if (block.kind == DeltaKind::kText) {
    json.Key("role").String("assistant").Key("content").BeginArray();
    if (!begun) WriteTextPart(item, block.text, json);
    json.EndArray();
  } else {
    json.Key("call_id").String(block.call_id).Key("name").String(block.name);
    if (!block.space.empty()) json.Key("namespace").String(block.space);
    json.Key(block.is_custom ? "input" : "arguments");
    json.String(begun ? std::string_view() : block.text);
  }
  json.EndObject();
}

std::string_view ErrorCodeOf(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
      return "invalid_prompt";
    case ErrorCode::kRateLimited:
      return "rate_limit_exceeded";
    default:
      return "server_error";
  }
}

void WriteResponsesUsage(const form::CompletionStats& stats, JsonWriter& json) {
  json.BeginObject().Key("input_tokens").Integer(stats.num_prompt_tokens);
  json.Key("input_tokens_details").BeginObject();
  json.Key("cached_tokens").Integer(stats.num_cached_tokens);
  if (stats.num_written_tokens >= 0) {
    json.Key("cache_write_tokens").Integer(stats.num_written_tokens);
  }
  json.EndObject();
  json.Key("output_tokens").Integer(stats.num_output_tokens);
  json.Key("output_tokens_details").BeginObject();
  json.Key("reasoning_tokens").Integer(stats.num_reasoning_tokens).EndObject();
  json.Key("total_tokens").Integer(stats.num_prompt_tokens + stats.num_output_tokens).EndObject();
}

// The state of a response; `finish` is null until it has ended.
struct State {
  std::string_view status = kInProgress;
  const FinishEvent* finish = nullptr;
  bool explain = false;
};

State EndState(const FinishEvent& finish, bool explain) {
  return {.status = finish.error ? "failed" : StatusOf(finish.reason),
          .finish = &finish,
          .explain = explain};
}

void WriteEnd(const State& state, const ReplyOptions& options, JsonWriter& json) {
  const FinishEvent* finish = state.finish;
  json.Key("completed_at");
  if (state.status == kCompleted) {
    json.Integer(options.created_unix + std::llround(finish->stats.total_seconds));
  } else {
    json.Null();
  }
  json.Key("error");
  if (finish != nullptr && finish->error) {
    json.BeginObject().Key("code").String(ErrorCodeOf(*finish->error));
    json.Key("message").String(form::PublicMessage(*finish->error)).EndObject();
  } else {
    json.Null();
  }
  json.Key("incomplete_details");
  if (state.status == kIncomplete) {
    const bool refused = finish->reason == FinishReason::kRefusal;
    json.BeginObject().Key("reason");
    json.String(refused ? "content_filter" : "max_output_tokens").EndObject();
  } else {
    json.Null();
  }
}

void WriteResponse(const ReplyOptions& options, const State& state,
                   const std::vector<ResponsesItem>& output, JsonWriter& json) {
  json.BeginObject().Key("id").String(ReplyId(options)).Key("object").String("response");
  json.Key("created_at").Integer(options.created_unix).Key("status").String(state.status);
  json.Key("background").Bool(false);
  WriteEnd(state, options, json);
  json.Key("model").String(options.model).Key("output").Raw(responses::ToArray(output));
  json.Key("service_tier").String("default").Key("store").Bool(options.response.stored);
  json.Key("usage");
  if (state.finish != nullptr && !state.finish->error) {
    WriteResponsesUsage(state.finish->stats, json);
  } else {
    json.Null();
  }
  if (!options.response.echo.empty()) json.Raw(options.response.echo);
  if (state.explain) {
    json.Key("kvgate");
    WriteExplain(state.finish->stats, options.request_id, json);
  }
  json.EndObject();
}

class ResponsesEncoder final : public ReplyEncoder {
 public:
  using ReplyEncoder::ReplyEncoder;

  void OnStart(const form::PromptUsage&, std::string& out) override {
    if (!options_.stream) return;
    SendResponse("response.created", {}, {}, out);
    SendResponse("response.in_progress", {}, {}, out);
  }

  void OnDelta(const form::DeltaEvent& delta, std::string& out) override {
    ReplyChoice& answer = choices_.front();
    const size_t num_blocks = answer.blocks().size();
    answer.Add(delta);
    if (!options_.stream) return;
    if (answer.blocks().size() > num_blocks) {
      Close(kCompleted, out);
      Open(num_blocks, out);
    }
    if (delta.kind == DeltaKind::kCallEnd) {
      Close(kCompleted, out);
    } else if (open_ && delta.kind != DeltaKind::kCall && !delta.text.empty()) {
      SendDelta(delta, out);
    }
  }

  void OnFinish(const FinishEvent& event, std::string& out) override {
    const ReplyChoice& answer = choices_.front();
    const State state = EndState(event, options_.explain && !event.error);
    if (!options_.stream) {
      JsonWriter json(out);
      WriteResponse(options_, state, EncodeOutput(options_, answer, event.reason), json);
      return;
    }
    if (event.error) {
      Fail(*event.error, state, out);
      return;
    }
    if (answer.blocks().empty()) Open(0, out);
    Close(StatusOf(event.reason), out);
    SendResponse(state.status == kIncomplete ? "response.incomplete" : "response.completed", state,
                 EncodeOutput(options_, answer, event.reason), out);
  }

 private:
  // An event {"type":NAME,"sequence_number":N, …}.
  struct Event {
    Event(ResponsesEncoder& encoder, std::string_view event_name) : name(event_name) {
      json.BeginObject().Key("type").String(name);
      json.Key("sequence_number").Integer(encoder.sequence_++);
    }
    // An event that concerns the open item.
    Event(ResponsesEncoder& encoder, std::string_view event_name, const Item& item)
        : Event(encoder, event_name) {
      json.Key("item_id").String(item.id).Key("output_index").Integer(encoder.Index());
    }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    void Send(std::string& out) {
      json.EndObject();
      AppendNamedSseEvent(name, text, out);
    }
    std::string_view name;
    std::string text;
    JsonWriter json{text};
  };

  void SendResponse(std::string_view name, const State& state,
                    const std::vector<ResponsesItem>& output, std::string& out) {
    Event event(*this, name);
    event.json.Key("response");
    WriteResponse(options_, state, output, event.json);
    event.Send(out);
  }

  // The official clients throw at the first event, with its text; others look for the second.
  void Fail(const Error& error, const State& state, std::string& out) {
    Event event(*this, "error");
    event.json.Key("code")
        .String(ErrorCodeOf(error))
        .Key("message")
        .String(form::PublicMessage(error));
    event.json.Key("param");
    error.field.empty() ? event.json.Null() : event.json.String(error.field);
    const std::string encoded = form::EncodeError(error);  // {"error":…}
    event.json.Raw(std::string_view(encoded).substr(1, encoded.size() - 2));
    event.Send(out);
    std::vector<ResponsesItem> output;
    if (!choices_.front().blocks().empty()) {
      output = EncodeOutput(options_, choices_.front(), FinishReason::kLength);
    }
    SendResponse("response.failed", state, output, out);
  }

  Item OpenItem() const { return ItemOf(options_, choices_.front(), *open_); }

  int64_t Index() const { return static_cast<int64_t>(*open_); }

  void Open(size_t index, std::string& out) {
    open_ = index;
    const Item item = OpenItem();
    Event added(*this, "response.output_item.added");
    added.json.Key("output_index").Integer(Index()).Key("item");
    WriteItem(options_, item, kInProgress, added.json);
    added.Send(out);
    if (item.block.kind == DeltaKind::kCall) return;
    if (HasSummary(item)) SendSummaryPart(item, "response.reasoning_summary_part.added", "", out);
    SendPart(item, "response.content_part.added", "", out);
  }

  bool HasSummary(const Item& item) const {
    return options_.response.summary && item.block.kind == DeltaKind::kReasoning;
  }

  void SendPart(const Item& item, std::string_view name, std::string_view text, std::string& out) {
    Event event(*this, name, item);
    event.json.Key("content_index").Integer(0).Key("part");
    WritePart(item, text, event.json);
    event.Send(out);
  }

  void SendSummaryPart(const Item& item, std::string_view name, std::string_view text,
                       std::string& out) {
    Event event(*this, name, item);
    event.json.Key("summary_index").Integer(0).Key("part");
    WriteReasoningPart("summary_text", text, event.json);
    event.Send(out);
  }

  void SendDelta(const form::DeltaEvent& delta, std::string& out) {
    const Item item = OpenItem();
    if (delta.kind == DeltaKind::kArguments) {
      Event event(*this,
                  item.block.is_custom ? "response.custom_tool_call_input.delta"
                                       : "response.function_call_arguments.delta",
                  item);
      event.json.Key("delta").String(delta.text);
      event.Send(out);
      return;
    }
    if (HasSummary(item)) {
      Event event(*this, "response.reasoning_summary_text.delta", item);
      event.json.Key("summary_index").Integer(0).Key("delta").String(delta.text);
      event.Send(out);
    }
    const bool reasoning = delta.kind == DeltaKind::kReasoning;
    Event event(*this, reasoning ? "response.reasoning_text.delta" : "response.output_text.delta",
                item);
    event.json.Key("content_index").Integer(0).Key("delta").String(delta.text);
    if (!reasoning) {
      event.json.Key("logprobs");
      WriteTokenDetails(delta.tokens, event.json);
    }
    event.Send(out);
  }

  void CloseText(const Item& item, std::string& out) {
    const std::string& text = item.block.text;
    if (HasSummary(item)) {
      Event event(*this, "response.reasoning_summary_text.done", item);
      event.json.Key("summary_index").Integer(0).Key("text").String(text);
      event.Send(out);
      SendSummaryPart(item, "response.reasoning_summary_part.done", text, out);
    }
    const bool reasoning = item.block.kind == DeltaKind::kReasoning;
    Event event(*this, reasoning ? "response.reasoning_text.done" : "response.output_text.done",
                item);
    event.json.Key("content_index").Integer(0).Key("text").String(text);
    if (!reasoning) {
      event.json.Key("logprobs");
      WriteTokenDetails(item.tokens, event.json);
    }
    event.Send(out);
    SendPart(item, "response.content_part.done", text, out);
  }

  void Close(std::string_view status, std::string& out) {
    if (!open_) return;
    const Item item = OpenItem();
    if (item.block.is_custom) {
      Event event(*this, "response.custom_tool_call_input.done", item);
      event.json.Key("input").String(item.block.text);
      event.Send(out);
    } else if (item.block.kind == DeltaKind::kCall) {
      Event event(*this, "response.function_call_arguments.done", item);
      event.json.Key("name").String(item.block.name).Key("arguments").String(item.block.text);
      event.Send(out);
    } else {
      CloseText(item, out);
    }
    Event done(*this, "response.output_item.done");
    done.json.Key("output_index").Integer(Index()).Key("item");
    WriteItem(options_, item, status, done.json);
    done.Send(out);
    open_.reset();
  }

  int64_t sequence_ = 0;
  std::optional<size_t> open_;  // index of the open item
};

}  // namespace

std::unique_ptr<ReplyEncoder> MakeResponsesEncoder(ReplyOptions options) {
  return std::make_unique<ResponsesEncoder>(std::move(options));
}

std::vector<ResponsesItem> EncodeOutput(const ReplyOptions& options, const ReplyChoice& answer,
                                        FinishReason reason) {
  std::vector<ResponsesItem> items;
  for (size_t i = 0; i < NumItems(answer); ++i) {
    const Item item = ItemOf(options, answer, i);
    const bool last = i + 1 == NumItems(answer);
    std::string out;
    JsonWriter json(out);
    WriteItem(options, item, last ? StatusOf(reason) : kCompleted, json);
    items.push_back({.id = item.id, .json = std::move(out)});
  }
  return items;
}

std::string EncodeResponse(const ReplyOptions& options, const FinishEvent& finish,
                           const std::vector<ResponsesItem>& output) {
  std::string out;
  JsonWriter json(out);
  WriteResponse(options, EndState(finish, false), output, json);
  return out;
}

}  // namespace kvgate::dialect::responses
