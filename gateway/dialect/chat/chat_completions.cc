#include "gateway/dialect/chat/chat_completions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/text/chat/template_format.h"
#include "gateway/dialect/form/client_calls.h"
#include "gateway/dialect/form/common_fields.h"
#include "gateway/dialect/form/errors.h"
#include "gateway/dialect/form/field_reader.h"
#include "gateway/dialect/form/json_value.h"
#include "gateway/dialect/form/left_out.h"
#include "gateway/dialect/form/tools.h"

namespace kvgate::dialect::chat {

using reply::AppendSseEvent;
using reply::FinishReasonName;
using reply::ReplyBlock;
using reply::ReplyChoice;
using reply::ReplyEncoder;
using reply::ReplyId;
using reply::ReplyOptions;
using reply::WriteExplain;
using reply::WriteTokenDetails;
using reply::WriteUsage;

using form::DecodeState;
using form::DeltaKind;
using form::Fields;
using form::IndexPath;
using form::JsonArray;
using form::JsonElement;
using form::JsonWriter;
using form::Message;
using form::MissingError;
using form::RangeError;
using form::ReadArray;
using form::UnsupportedError;

namespace {

// --- decoding ---------------------------------------------------------------------------------

Result<void> CheckRole(const std::string& role, const std::string& path) {
  static constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user",
                                                             "assistant", "tool"};
  if (std::find(kRoles.begin(), kRoles.end(), role) != kRoles.end()) return {};
  return RangeError(path, "must be one of 'system', 'developer', 'user', 'assistant', 'tool'");
}

// A content part that is not text, with the member that holds its data.
struct MediaPart {
  std::string_view type;
  std::string_view member;
  std::string_view what;
};
constexpr MediaPart kMediaParts[] = {
    {"image_url", "image_url", "image"},     {"input_image", "image_url", "image"},
    {"input_audio", "input_audio", "audio"}, {"audio_url", "audio_url", "audio"},
    {"video_url", "video_url", "video"},     {"file", "file", "file"},
    {"input_file", "file_data", "file"}};

// Returns a placeholder text for media given as {"url"}, {"data","format"},
// {"filename","file_data"} or the URL itself.
Result<std::string> ReadMedia(const Fields& part, const MediaPart& kind, DecodeState& state) {
  const JsonElement* held = part.Find(kind.member);
  if (held == nullptr) return MissingError(part.Path(kind.member));
  std::string url;
  std::string type;
  std::string name;
  if (held->is_string()) {
    KVGATE_TRY(url, form::ReadString(*held, part.Path(kind.member)));
  } else {
    KVGATE_TRY(const Fields inner, Fields::Read(*held, part.Path(kind.member),
                                                {"url", "file_data", "format", "filename"}));
    KVGATE_TRY(url, inner.StringOrEmpty(kind.what == "file" ? "file_data" : "url"));
    KVGATE_TRY(type, inner.StringOrEmpty("format"));
    KVGATE_TRY(name, inner.StringOrEmpty("filename"));
  }
  const std::string_view of_url = form::MediaTypeOfUrl(url);
  form::AddLeftOut(kind.what, state.request.left_out);
  return form::PlaceholderOf(
      {.what = kind.what, .type = of_url.empty() ? std::string_view(type) : of_url, .name = name});
}

Result<std::string> ReadPart(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const Fields part, Fields::Read(value, path,
                                             {"type", "text", "refusal", "image_url", "input_audio",
                                              "audio_url", "video_url", "file", "file_data"}));
  KVGATE_TRY(const std::string type, part.String("type"));
  if (type == "refusal") return part.String("refusal");
  if (type == "text") return part.String("text");
  for (const MediaPart& kind : kMediaParts) {
    if (type == kind.type) return ReadMedia(part, kind, state);
  }
  return UnsupportedError(part.Path("type"), fmt::format("a content part of type '{}' is", type));
}

// Text parts go on lines of their own, as if the caller had joined them.
Result<std::string> ReadContent(JsonElement value, const std::string& path, DecodeState& state) {
  if (value.is_string()) return form::ReadString(value, path);
  JsonArray parts;
  if (value.get(parts) != simdjson::SUCCESS) {
    return form::TypeError(path, "a string or an array of content parts", value);
  }
  if (parts.size() == 0) return RangeError(path, "must not be an empty array");
  std::string content;
  size_t index = 0;
  for (const JsonElement part : parts) {
    if (index > 0) content += '\n';
    KVGATE_TRY(const std::string text, ReadPart(part, IndexPath(path, index++), state));
    content += text;
  }
  return content;
}

// Reads {"name","arguments"}, or {"name","input"} for a custom tool.
Result<void> ReadCall(const Fields& fields, const std::string& type, form::ToolCall& added) {
  const bool custom = type == "custom";
  const char* const holder = custom ? "custom" : "function";
  if (!custom && !type.empty() && type != "function") {
    return UnsupportedError(fields.Path("type"), fmt::format("a call of type '{}' is", type));
  }
  const JsonElement* held = fields.Find(holder);
  if (held == nullptr) return MissingError(fields.Path(holder));
  KVGATE_TRY(const Fields inner,
             Fields::Read(*held, fields.Path(holder), {"name", "arguments", "input"}));
  KVGATE_TRY(added.id, fields.String("id"));
  KVGATE_TRY(added.name, inner.String("name"));
  if (custom) {
    KVGATE_TRY(const std::string input, inner.StringOrEmpty("input"));
    added.arguments = form::InputArguments(input);
    return {};
  }
  KVGATE_TRY(added.arguments, inner.StringOrEmpty("arguments"));
  return {};
}

Result<void> ReadToolCalls(JsonElement value, const std::string& path, Message& message) {
  KVGATE_TRY(const JsonArray calls, ReadArray(value, path));
  size_t index = 0;
  for (const JsonElement call : calls) {
    KVGATE_TRY(const Fields fields,
               Fields::Read(call, IndexPath(path, index++), {"id", "type", "function", "custom"}));
    KVGATE_TRY(const std::string type, fields.StringOrEmpty("type"));
    KVGATE_TRY_VOID(ReadCall(fields, type, message.tool_calls.emplace_back()));
  }
  return {};
}

Result<void> ReadAssistant(const Fields& fields, Message& message) {
  if (const JsonElement* calls = fields.Find("tool_calls"); calls != nullptr) {
    KVGATE_TRY_VOID(ReadToolCalls(*calls, fields.Path("tool_calls"), message));
  }
  if (fields.Find("function_call") != nullptr) {
    return UnsupportedError(fields.Path("function_call"),
                            "a call in the form before tool_calls is");
  }
  // DeepSeek and llama.cpp call the field reasoning_content; others call it reasoning.
  KVGATE_TRY(message.reasoning, fields.StringOrEmpty("reasoning_content"));
  if (message.reasoning.empty() && fields.Find("reasoning") != nullptr &&
      fields.Find("reasoning")->is_string()) {
    KVGATE_TRY(message.reasoning, fields.String("reasoning"));
  }
  return {};
}

Result<void> ReadMessage(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const Fields fields,
             Fields::Read(value, path,
                          {"role", "content", "tool_calls", "function_call", "tool_call_id",
                           "reasoning_content", "reasoning", "refusal"}));
  Message message;
  KVGATE_TRY(message.role, fields.String("role"));
  KVGATE_TRY_VOID(CheckRole(message.role, fields.Path("role")));
  if (message.role == "assistant") KVGATE_TRY_VOID(ReadAssistant(fields, message));
  if (message.role == "tool") {
    KVGATE_TRY(message.tool_call_id, fields.String("tool_call_id"));
    KVGATE_TRY_VOID(form::CheckAnswersCall(fields.Path("tool_call_id"), message.tool_call_id,
                                           form::Messages(state)));
  }
  if (const JsonElement* content = fields.Find("content"); content != nullptr) {
    KVGATE_TRY(message.content, ReadContent(*content, fields.Path("content"), state));
    if (message.role == "system" && form::Messages(state).empty()) {
      message.content = std::string(form::WithoutBillingHeader(message.content));
    }
  } else if (message.role == "assistant" && fields.Find("refusal") != nullptr) {
    KVGATE_TRY(message.content, fields.String("refusal"));
  } else if (message.tool_calls.empty() && message.reasoning.empty()) {
    return MissingError(fields.Path("content"));
  }
  form::Messages(state).push_back(std::move(message));
  return {};
}

Result<void> ReadMessages(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const JsonArray array, ReadArray(value, path));
  if (array.size() == 0) return RangeError(path, "must have at least one message");
  if (array.size() > state.limits.messages_max) {
    return RangeError(path,
                      fmt::format("must have at most {} messages", state.limits.messages_max));
  }
  state.has_prompt = true;
  state.request.prompt = std::vector<Message>();
  size_t index = 0;
  for (const JsonElement message : array) {
    KVGATE_TRY_VOID(ReadMessage(message, IndexPath(path, index), state));
    form::Messages(state).back().element = static_cast<int>(index++);
  }
  return {};
}

Result<void> ReadMaxCompletionTokens(JsonElement value, const std::string& path,
                                     DecodeState& state) {
  KVGATE_TRY(state.max_completion_tokens,
             form::ReadInteger(value, path, {.min = 0, .max = int64_t{1} << 31}));
  return {};
}

Result<void> ReadLogprobs(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(state.logprobs, form::ReadBool(value, path));
  return {};
}

// "functions" is the predecessor of "tools".
Result<void> ReadFunctions(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY(const JsonArray functions, ReadArray(value, path));
  if (functions.size() != 0) return UnsupportedError(path, "the form before 'tools' is");
  return {};
}

// vLLM and llama.cpp use this field name.
Result<void> ReadTemplateArguments(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const form::JsonObject object, form::ReadObject(value, path));
  for (const simdjson::dom::key_value_pair field : object) {
    if (kvgate::chat::IsTemplateVariable(field.key)) {
      return RangeError(
          path, fmt::format("must not have '{}': that comes from the request itself", field.key));
    }
    state.request.template_arguments.emplace_back(std::string(field.key),
                                                  form::ToData(field.value));
  }
  return {};
}

// DeepSeek, GLM and Kimi have this field: {"type":"enabled"}.
Result<void> ReadThinking(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const Fields fields, Fields::Read(value, path, {"type"}));
  KVGATE_TRY(const std::string type, fields.String("type"));
  if (type != "enabled" && type != "disabled" && type != "auto") {
    return RangeError(fields.Path("type"), "must be 'enabled', 'disabled' or 'auto'");
  }
  if (type != "auto") state.request.thinking = type == "enabled";
  return {};
}

Result<void> ReadModalities(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY(const JsonArray modalities, ReadArray(value, path));
  size_t index = 0;
  for (const JsonElement modality : modalities) {
    const std::string element_path = IndexPath(path, index++);
    KVGATE_TRY(const std::string name, form::ReadString(modality, element_path));
    if (name != "text") return UnsupportedError(element_path, "output other than text is");
  }
  return {};
}

constexpr form::FieldSpec kOwnFields[] = {
    {"messages", ReadMessages},
    {"max_completion_tokens", ReadMaxCompletionTokens},
    {"logprobs", ReadLogprobs},
    {"top_logprobs", form::ReadTopLogprobs},
    {"tools", form::ReadChatTools},
    {"tool_choice", form::ReadToolChoice},
    {"parallel_tool_calls", form::ReadParallelToolCalls},
    {"functions", ReadFunctions},
    {"modalities", ReadModalities},
    {"chat_template_kwargs", ReadTemplateArguments},
    {"reasoning_effort", form::ReadReasoningEffort},
    {"thinking", ReadThinking},
};

// --- encoding ---------------------------------------------------------------------------------

// Writes {"content":[…]}, or null if none were requested.
void WriteLogprobs(const std::vector<form::TokenDetail>& tokens, bool wanted, JsonWriter& json) {
  if (!wanted) {
    json.Null();
    return;
  }
  json.BeginObject().Key("content");
  WriteTokenDetails(tokens, json);
  json.Key("refusal").Null().EndObject();
}

std::string_view TypeOfCall(bool is_custom) { return is_custom ? "custom" : "function"; }

class ChatCompletionsEncoder final : public ReplyEncoder {
 public:
  using ReplyEncoder::ReplyEncoder;

  void OnStart(const form::PromptUsage&, std::string& out) override {
    if (!options_.stream) return;
    for (const ReplyChoice& choice : choices_) WriteRoleChunk(choice.index(), out);
  }

  void OnDelta(const form::DeltaEvent& event, std::string& out) override {
    Keep(event);
    if (!options_.stream) return;
    if (!event.text.empty() || !event.tokens.empty()) WriteDeltaChunk(event, out);
    if (event.finish) WriteFinishChunk(event.choice, *event.finish, nullptr, out);
  }

  void OnFinish(const form::FinishEvent& event, std::string& out) override {
    if (options_.stream && event.error) {
      AppendSseEvent(form::EncodeError(*event.error), out);
      return;
    }
    const std::vector<int> ended = EndOpenChoices(event.reason);
    if (!options_.stream) {
      WriteBody(event, out);
      return;
    }
    for (const int choice : ended) {
      const bool last = choice == ended.back();
      WriteFinishChunk(choice, event.reason, last ? &event.stats : nullptr, out);
    }
    if (options_.include_usage) WriteUsageChunk(event, out);
    AppendSseEvent("[DONE]", out);
  }

 private:
  void WriteHead(std::string_view object, JsonWriter& json) const {
    json.BeginObject().Key("id").String(ReplyId(options_)).Key("object").String(object);
    json.Key("created").Integer(options_.created_unix).Key("model").String(options_.model);
    json.Key("system_fingerprint").String(options_.system_fingerprint);
    json.Key("choices").BeginArray();
  }

  void BeginChunk(JsonWriter& json) const { WriteHead("chat.completion.chunk", json); }

  // Every chunk but the last says usage:null when usage was asked for, as the API documents.
  void EndChunk(JsonWriter& json) const {
    json.EndArray();
    if (options_.include_usage) json.Key("usage").Null();
    json.EndObject();
  }

  void WriteRoleChunk(int choice, std::string& out) const {
    std::string chunk;
    JsonWriter json(chunk);
    BeginChunk(json);
    json.BeginObject().Key("index").Integer(choice);
    json.Key("delta").BeginObject().Key("role").String("assistant");
    json.Key("content").String("").EndObject();
    json.Key("logprobs").Null().Key("finish_reason").Null().EndObject();
    EndChunk(json);
    AppendSseEvent(chunk, out);
  }

  static void WriteDelta(const form::DeltaEvent& event, JsonWriter& json) {
    json.BeginObject();
    switch (event.kind) {
      case DeltaKind::kText:
        json.Key("content").String(event.text);
        break;
      case DeltaKind::kReasoning:
        json.Key("reasoning_content").String(event.text);
        break;
      case DeltaKind::kCall:
        json.Key("tool_calls").BeginArray().BeginObject().Key("index").Integer(event.call);
        json.Key("id").String(event.call_id).Key("type").String(TypeOfCall(event.is_custom));
        json.Key(TypeOfCall(event.is_custom)).BeginObject().Key("name").String(event.text);
        json.Key(event.is_custom ? "input" : "arguments").String("");
        json.EndObject().EndObject().EndArray();
        break;
      case DeltaKind::kArguments:
        json.Key("tool_calls").BeginArray().BeginObject().Key("index").Integer(event.call);
        json.Key(TypeOfCall(event.is_custom)).BeginObject();
        json.Key(event.is_custom ? "input" : "arguments").String(event.text);
        json.EndObject().EndObject().EndArray();
        break;
      case DeltaKind::kCallEnd:
        break;
    }
    json.EndObject();
  }

  void WriteDeltaChunk(const form::DeltaEvent& event, std::string& out) const {
    std::string chunk;
    JsonWriter json(chunk);
    BeginChunk(json);
    json.BeginObject().Key("index").Integer(event.choice).Key("delta");
    WriteDelta(event, json);
    json.Key("logprobs");
    WriteLogprobs(event.tokens, options_.logprobs, json);
    json.Key("finish_reason").Null().EndObject();
    EndChunk(json);
    AppendSseEvent(chunk, out);
  }

  // `stats` is set only for the last chunk, which carries the kvgate object.
  void WriteFinishChunk(int choice, form::FinishReason reason, const form::CompletionStats* stats,
                        std::string& out) const {
    std::string chunk;
    JsonWriter json(chunk);
    BeginChunk(json);
    json.BeginObject().Key("index").Integer(choice).Key("delta").BeginObject().EndObject();
    json.Key("logprobs").Null();
    json.Key("finish_reason").String(FinishReasonName(reason)).EndObject();
    if (stats != nullptr && options_.explain && !options_.include_usage) {
      json.EndArray().Key("kvgate");
      WriteExplain(*stats, options_.request_id, json);
      json.EndObject();
    } else {
      EndChunk(json);
    }
    AppendSseEvent(chunk, out);
  }

  void WriteUsageChunk(const form::FinishEvent& event, std::string& out) const {
    std::string chunk;
    JsonWriter json(chunk);
    BeginChunk(json);
    json.EndArray().Key("usage");
    WriteUsage(event.stats, json);
    if (options_.explain) {
      json.Key("kvgate");
      WriteExplain(event.stats, options_.request_id, json);
    }
    json.EndObject();
    AppendSseEvent(chunk, out);
  }

  static void WriteMessage(const ReplyChoice& choice, JsonWriter& json) {
    const std::string content = choice.Text(DeltaKind::kText);
    const std::string reasoning = choice.Text(DeltaKind::kReasoning);
    const auto& blocks = choice.blocks();
    const bool calls = std::any_of(blocks.begin(), blocks.end(), [](const ReplyBlock& block) {
      return block.kind == DeltaKind::kCall;
    });
    json.BeginObject().Key("role").String("assistant").Key("content");
    // The content of a turn that only makes calls is absent, so it is null.
    content.empty() && calls ? json.Null() : json.String(content);
    json.Key("refusal").Null();
    if (!reasoning.empty()) json.Key("reasoning_content").String(reasoning);
    if (calls) {
      json.Key("tool_calls").BeginArray();
      for (const ReplyBlock& block : blocks) {
        if (block.kind != DeltaKind::kCall) continue;
        json.BeginObject().Key("id").String(block.call_id);
        json.Key("type").String(TypeOfCall(block.is_custom));
        json.Key(TypeOfCall(block.is_custom)).BeginObject().Key("name").String(block.name);
        json.Key(block.is_custom ? "input" : "arguments").String(block.text);
        json.EndObject().EndObject();
      }
      json.EndArray();
    }
    json.EndObject();
  }

  void WriteBody(const form::FinishEvent& event, std::string& out) const {
    JsonWriter json(out);
    WriteHead("chat.completion", json);
    for (const ReplyChoice& choice : choices_) {
      json.BeginObject().Key("index").Integer(choice.index()).Key("message");
      WriteMessage(choice, json);
      json.Key("logprobs");
      WriteLogprobs(choice.tokens(), options_.logprobs, json);
      json.Key("finish_reason").String(FinishReasonName(*choice.finish())).EndObject();
    }
    json.EndArray();
    json.Key("usage");
    WriteUsage(event.stats, json);
    if (options_.explain) {
      json.Key("kvgate");
      WriteExplain(event.stats, options_.request_id, json);
    }
    json.EndObject();
  }
};

}  // namespace

Result<form::CompletionRequest> DecodeChatCompletions(std::string_view body,
                                                      const form::DecodeLimits& limits) {
  static const std::vector<form::FieldSpec> fields = form::WithCommonFields(kOwnFields);
  simdjson::dom::parser parser;
  KVGATE_TRY(const form::JsonObject object, form::ParseBody(body, limits, parser));
  DecodeState state{.limits = limits};
  state.request.dialect = form::Dialect::kChatCompletions;
  KVGATE_TRY_VOID(form::ReadFields(object, "", fields, state));
  KVGATE_TRY_VOID(form::FinishCommonFields(state));
  if (!state.has_prompt) return MissingError("messages");
  KVGATE_TRY_VOID(form::CheckToolChoice("tool_choice", state));
  if (state.top_logprobs >= 0 && !state.logprobs) {
    return RangeError("top_logprobs", "is only allowed when logprobs is true");
  }
  if (state.logprobs) state.request.num_logprobs = std::max(state.top_logprobs, 0);
  if (state.max_completion_tokens) state.request.max_tokens = state.max_completion_tokens;
  return std::move(state.request);
}

std::unique_ptr<ReplyEncoder> MakeChatCompletionsEncoder(ReplyOptions options) {
  return std::make_unique<ChatCompletionsEncoder>(std::move(options));
}

}  // namespace kvgate::dialect::chat
