#include "gateway/protocol/chat_completions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/template/template_format.h"
#include "gateway/protocol/common_fields.h"
#include "gateway/protocol/errors.h"
#include "gateway/protocol/field_reader.h"

namespace kvgate::protocol {
namespace {

// --- decoding ---------------------------------------------------------------------------------

std::vector<Message>& Messages(DecodeState& state) {
  return std::get<std::vector<Message>>(state.request.prompt);
}

Result<void> ReadRole(JsonElement value, const std::string& path, DecodeState& state) {
  static constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user",
                                                             "assistant", "tool"};
  KVGATE_TRY(std::string role, ReadString(value, path));
  if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end()) {
    return RangeError(path, "must be one of 'system', 'developer', 'user', 'assistant', 'tool'");
  }
  Messages(state).back().role = std::move(role);
  return {};
}

Result<std::string> ReadTextPart(JsonElement value, const std::string& path) {
  KVGATE_TRY(const JsonObject part, ReadObject(value, path));
  JsonElement type;
  if (part.at_key("type").get(type) != simdjson::SUCCESS) return MissingError(path + ".type");
  KVGATE_TRY(const std::string name, ReadString(type, path + ".type"));
  if (name != "text") {
    return UnsupportedError(path + ".type", fmt::format("a content part of type '{}' is", name));
  }
  JsonElement text;
  if (part.at_key("text").get(text) != simdjson::SUCCESS) return MissingError(path + ".text");
  return ReadString(text, path + ".text");
}

// Text parts stand on lines of their own, as they would if the caller had joined them.
Result<void> ReadContent(JsonElement value, const std::string& path, DecodeState& state) {
  std::string& content = Messages(state).back().content;
  if (value.is_string()) {
    KVGATE_TRY(content, ReadString(value, path));
    return {};
  }
  JsonArray parts;
  if (value.get(parts) != simdjson::SUCCESS) {
    return TypeError(path, "a string or an array of content parts", value);
  }
  if (parts.size() == 0) return RangeError(path, "must not be an empty array");
  size_t index = 0;
  for (const JsonElement part : parts) {
    if (index > 0) content += '\n';
    KVGATE_TRY(const std::string text, ReadTextPart(part, IndexPath(path, index++)));
    content += text;
  }
  return {};
}

Result<void> ReadToolCalls(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY(const JsonArray calls, ReadArray(value, path));
  if (calls.size() != 0) return UnsupportedError(path, "a tool call is");
  return {};
}

Result<void> ReadMessage(JsonElement value, const std::string& path, DecodeState& state) {
  static constexpr FieldSpec kFields[] = {
      {"role", ReadRole}, {"content", ReadContent}, {"tool_calls", ReadToolCalls}};
  KVGATE_TRY(const JsonObject object, ReadObject(value, path));
  Messages(state).emplace_back();
  KVGATE_TRY_VOID(ReadFields(object, path, kFields, state));
  if (Messages(state).back().role.empty()) return MissingError(path + ".role");
  JsonElement content;
  if (object.at_key("content").get(content) != simdjson::SUCCESS || content.is_null()) {
    return MissingError(path + ".content");
  }
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
    KVGATE_TRY_VOID(ReadMessage(message, IndexPath(path, index++), state));
  }
  return {};
}

Result<void> ReadMaxCompletionTokens(JsonElement value, const std::string& path,
                                     DecodeState& state) {
  KVGATE_TRY(state.max_completion_tokens,
             ReadInteger(value, path, {.min = 0, .max = int64_t{1} << 31}));
  return {};
}

Result<void> ReadLogprobs(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(state.logprobs, ReadBool(value, path));
  return {};
}

Result<void> ReadTopLogprobs(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const int64_t number, ReadInteger(value, path, {.min = 0, .max = 20}));
  state.top_logprobs = static_cast<int>(number);
  return {};
}

Result<void> ReadTools(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY(const JsonArray tools, ReadArray(value, path));
  if (tools.size() != 0) return UnsupportedError(path, "calling tools is");
  return {};
}

// Bounded in depth by the body's limit.
jinja::Data ToData(JsonElement value) {
  switch (value.type()) {
    case simdjson::dom::element_type::BOOL:
      return value.get_bool().value_unsafe();
    case simdjson::dom::element_type::INT64:
      return value.get_int64().value_unsafe();
    case simdjson::dom::element_type::UINT64:
      return jinja::Data::BigInteger{std::to_string(value.get_uint64().value_unsafe())};
    case simdjson::dom::element_type::DOUBLE:
      return value.get_double().value_unsafe();
    case simdjson::dom::element_type::STRING:
      return value.get_string().value_unsafe();
    case simdjson::dom::element_type::ARRAY: {
      jinja::Data::List list;
      const JsonArray array = value.get_array().value_unsafe();
      for (const JsonElement item : array) list.push_back(ToData(item));
      return list;
    }
    case simdjson::dom::element_type::OBJECT: {
      jinja::Data::Dict dict;
      const JsonObject object = value.get_object().value_unsafe();
      for (const simdjson::dom::key_value_pair field : object) {
        dict.emplace_back(std::string(field.key), ToData(field.value));
      }
      return dict;
    }
    default:
      return {};
  }
}

// As vLLM and llama.cpp name it.
Result<void> ReadTemplateArguments(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const JsonObject object, ReadObject(value, path));
  for (const simdjson::dom::key_value_pair field : object) {
    if (chat::IsTemplateVariable(field.key)) {
      return RangeError(
          path, fmt::format("must not have '{}': that comes from the request itself", field.key));
    }
    state.request.template_arguments.emplace_back(std::string(field.key), ToData(field.value));
  }
  return {};
}

Result<void> ReadModalities(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY(const JsonArray modalities, ReadArray(value, path));
  size_t index = 0;
  for (const JsonElement modality : modalities) {
    const std::string element_path = IndexPath(path, index++);
    KVGATE_TRY(const std::string name, ReadString(modality, element_path));
    if (name != "text") return UnsupportedError(element_path, "output other than text is");
  }
  return {};
}

constexpr FieldSpec kOwnFields[] = {
    {"messages", ReadMessages},     {"max_completion_tokens", ReadMaxCompletionTokens},
    {"logprobs", ReadLogprobs},     {"top_logprobs", ReadTopLogprobs},
    {"tools", ReadTools},           {"functions", ReadTools},
    {"modalities", ReadModalities}, {"chat_template_kwargs", ReadTemplateArguments},
};

// --- encoding ---------------------------------------------------------------------------------

void WriteTokenLogprob(const TokenLogprob& token, JsonWriter& json) {
  json.Key("token").String(token.bytes);
  json.Key("logprob").Number(token.logprob);
  json.Key("bytes").BeginArray();
  for (const char byte : token.bytes) json.Integer(static_cast<unsigned char>(byte));
  json.EndArray();
}

// {"content":[…]}; null where none were asked for.
void WriteLogprobs(const std::vector<TokenDetail>& tokens, bool wanted, JsonWriter& json) {
  if (!wanted) {
    json.Null();
    return;
  }
  json.BeginObject().Key("content").BeginArray();
  for (const TokenDetail& detail : tokens) {
    json.BeginObject();
    WriteTokenLogprob(detail.token, json);
    json.Key("top_logprobs").BeginArray();
    for (const TokenLogprob& top : detail.top) {
      json.BeginObject();
      WriteTokenLogprob(top, json);
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().Key("refusal").Null().EndObject();
}

class ChatCompletionsEncoder final : public ReplyEncoder {
 public:
  using ReplyEncoder::ReplyEncoder;

  void OnStart(std::string& out) override {
    if (!options_.stream) return;
    for (const DeltaEvent& choice : choices_) WriteRoleChunk(choice.choice, out);
  }

  void OnDelta(const DeltaEvent& event, std::string& out) override {
    Keep(event);
    if (!options_.stream) return;
    if (!event.text.empty() || !event.tokens.empty()) WriteTextChunk(event, out);
    if (event.finish) WriteFinishChunk(event.choice, *event.finish, nullptr, out);
  }

  void OnFinish(const FinishEvent& event, std::string& out) override {
    if (options_.stream && event.error) {
      AppendSseEvent(EncodeError(*event.error), out);
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

  void WriteTextChunk(const DeltaEvent& event, std::string& out) const {
    std::string chunk;
    JsonWriter json(chunk);
    BeginChunk(json);
    json.BeginObject().Key("index").Integer(event.choice);
    json.Key("delta").BeginObject().Key("content").String(event.text).EndObject();
    json.Key("logprobs");
    WriteLogprobs(event.tokens, options_.logprobs, json);
    json.Key("finish_reason").Null().EndObject();
    EndChunk(json);
    AppendSseEvent(chunk, out);
  }

  // `stats`: for the explanation, of the last chunk.
  void WriteFinishChunk(int choice, FinishReason reason, const CompletionStats* stats,
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

  void WriteUsageChunk(const FinishEvent& event, std::string& out) const {
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

  void WriteBody(const FinishEvent& event, std::string& out) const {
    JsonWriter json(out);
    WriteHead("chat.completion", json);
    for (const DeltaEvent& choice : choices_) {
      json.BeginObject().Key("index").Integer(choice.choice);
      json.Key("message").BeginObject().Key("role").String("assistant");
      json.Key("content").String(choice.text).Key("refusal").Null().EndObject();
      json.Key("logprobs");
      WriteLogprobs(choice.tokens, options_.logprobs, json);
      json.Key("finish_reason").String(FinishReasonName(*choice.finish)).EndObject();
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

Result<CompletionRequest> DecodeChatCompletions(std::string_view body, const DecodeLimits& limits) {
  static const std::vector<FieldSpec> fields = WithCommonFields(kOwnFields);
  simdjson::dom::parser parser;
  KVGATE_TRY(const JsonObject object, ParseBody(body, limits, parser));
  DecodeState state{.limits = limits};
  state.request.dialect = Dialect::kChatCompletions;
  KVGATE_TRY_VOID(ReadFields(object, "", fields, state));
  KVGATE_TRY_VOID(FinishCommonFields(state));
  if (!state.has_prompt) return MissingError("messages");
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

}  // namespace kvgate::protocol
