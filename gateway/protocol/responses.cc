#include "gateway/protocol/responses.h"

#include <fmt/format.h>

#include <atomic>
#include <random>
#include <utility>

#include "gateway/protocol/common_fields.h"
#include "gateway/protocol/field_reader.h"
#include "gateway/protocol/json_value.h"
#include "gateway/protocol/json_writer.h"
#include "gateway/protocol/tools.h"

namespace kvgate::protocol {
namespace {

// Members of a request that its response repeats as they came, and what stands there otherwise.
struct Echo {
  std::string_view name;
  std::string_view fallback;  // JSON
};
constexpr Echo kEchoes[] = {
    {"instructions", "null"},     {"max_output_tokens", "null"}, {"max_tool_calls", "null"},
    {"metadata", "{}"},           {"parallel_tool_calls", "true"},
    {"previous_response_id", "null"},
    {"prompt_cache_key", "null"}, {"reasoning", R"({"effort":null,"summary":null})"},
    {"safety_identifier", "null"}, {"service_tier", R"("default")"},
    {"store", "true"},            {"temperature", "1"},          {"text", R"({"format":{"type":"text"}})"},
    {"tool_choice", R"("auto")"}, {"tools", "[]"},               {"top_logprobs", "0"},
    {"top_p", "1"},               {"truncation", R"("disabled")"}, {"user", "null"},
};

std::string EchoOf(JsonObject object) {
  std::string echo;
  for (const Echo& member : kEchoes) {
    JsonElement value;
    const bool given = object.at_key(member.name).get(value) == simdjson::SUCCESS;
    echo.append(",\"").append(member.name).append("\":");
    echo += given && !value.is_null() ? ToJson(value) : std::string(member.fallback);
  }
  return echo;
}

std::string ItemId(std::string_view prefix) {
  thread_local std::mt19937_64 random((uint64_t{std::random_device()()} << 32) |
                                      std::random_device()());
  return fmt::format("{}_{:016x}{:08x}", prefix, random(), random() >> 32);
}

// --- the body ---------------------------------------------------------------------------------

std::string_view IdPrefixOf(std::string_view type) {
  if (type == "function_call") return "fc";
  if (type == "function_call_output") return "fco";
  return type == "reasoning" ? "rs" : "msg";
}

// An item as it is kept: with its type and an id.
Result<std::string> ToItem(JsonElement value, const std::string& path) {
  KVGATE_TRY(const Fields fields, Fields::Read(value, path, {"type", "id", "role"}));
  KVGATE_TRY(std::string type, fields.StringOrEmpty("type"));
  const bool has_type = !type.empty();
  if (!has_type) {
    if (fields.Find("role") == nullptr) return MissingError(fields.Path("type"));
    type = "message";
  }
  KVGATE_TRY(const std::string id, fields.StringOrEmpty("id"));
  std::string json = ToJson(value);
  std::string head = "{";
  if (id.empty()) head += fmt::format(R"("id":"{}",)", ItemId(IdPrefixOf(type)));
  if (!has_type) head += R"("type":"message",)";
  return head + json.substr(1);
}

Result<void> ReadInput(JsonElement value, const std::string& path, ResponsesRequest& request) {
  if (value.is_string()) {
    KVGATE_TRY(const std::string text, ReadString(value, path));
    std::string item = fmt::format(
        R"({{"id":"{}","type":"message","status":"completed","role":"user","content":[{{"type":)"
        R"("input_text","text":)",
        ItemId("msg"));
    AppendJsonString(text, item);
    request.input.push_back(item + "}]}");
    return {};
  }
  JsonArray items;
  if (value.get(items) != simdjson::SUCCESS) {
    return TypeError(path, "a string or an array of items", value);
  }
  size_t index = 0;
  for (const JsonElement item : items) {
    KVGATE_TRY(std::string kept, ToItem(item, IndexPath(path, index++)));
    request.input.push_back(std::move(kept));
  }
  return {};
}

// "conv_…" or {"id":"conv_…"}
Result<std::string> ReadConversation(JsonElement value, const std::string& path) {
  if (value.is_string()) return ReadString(value, path);
  KVGATE_TRY(const Fields fields, Fields::Read(value, path, {"id"}));
  return fields.String("id");
}

Result<void> ReadReasoning(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const Fields fields, Fields::Read(value, path, {"effort", "summary"}));
  KVGATE_TRY(state.request.reasoning_effort, fields.StringOrEmpty("effort"));
  if (state.request.reasoning_effort == "none") state.request.thinking = false;
  return {};
}

Result<void> ReadText(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY(const Fields fields, Fields::Read(value, path, {"format", "verbosity"}));
  const JsonElement* format = fields.Find("format");
  if (format == nullptr) return {};
  KVGATE_TRY(const Fields inner, Fields::Read(*format, fields.Path("format"), {"type"}));
  KVGATE_TRY(const std::string type, inner.String("type"));
  if (type != "text") {
    return UnsupportedError(inner.Path("type"), "a format other than \"text\" is");
  }
  return {};
}

Result<void> ReadMaxOutputTokens(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(state.request.max_tokens,
             ReadInteger(value, path, {.min = 1, .max = int64_t{1} << 31}));
  return {};
}

Result<void> RefuseBackground(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY(const bool background, ReadBool(value, path));
  if (background) return UnsupportedError(path, "a response in the background is");
  return {};
}

Result<void> CheckTruncation(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY(const std::string truncation, ReadString(value, path));
  if (truncation == "disabled" || truncation == "auto") return {};
  return RangeError(path, "must be 'auto' or 'disabled'");
}

constexpr FieldSpec kOwnFields[] = {
    {"tools", ReadFlatTools},
    {"tool_choice", ReadToolChoice},
    {"parallel_tool_calls", ReadParallelToolCalls},
    {"reasoning", ReadReasoning},
    {"text", ReadText},
    {"max_output_tokens", ReadMaxOutputTokens},
    {"background", RefuseBackground},
    {"truncation", CheckTruncation},
};

// --- items ------------------------------------------------------------------------------------

// A string, or parts of text of whatever name.
Result<std::string> ReadParts(JsonElement value, const std::string& path) {
  if (value.is_string()) return ReadString(value, path);
  JsonArray parts;
  if (value.get(parts) != simdjson::SUCCESS) {
    return TypeError(path, "a string or an array of content parts", value);
  }
  std::string text;
  size_t index = 0;
  for (const JsonElement part : parts) {
    KVGATE_TRY(const Fields fields,
               Fields::Read(part, IndexPath(path, index), {"type", "text", "refusal"}));
    KVGATE_TRY(const std::string type, fields.String("type"));
    if (type != "input_text" && type != "output_text" && type != "text" && type != "refusal" &&
        type != "reasoning_text" && type != "summary_text") {
      return UnsupportedError(fields.Path("type"),
                              fmt::format("a content part of type '{}' is", type));
    }
    KVGATE_TRY(const std::string more, fields.String(type == "refusal" ? "refusal" : "text"));
    if (index++ > 0) text += '\n';
    text += more;
  }
  return text;
}

// The assistant's turn at the end, or a new one; one that has called is not spoken in again.
Message& AssistantTurn(bool speaks, std::vector<Message>& messages) {
  const bool open = !messages.empty() && messages.back().role == "assistant" &&
                    !(speaks && (!messages.back().content.empty() ||
                                 !messages.back().tool_calls.empty()));
  if (!open) messages.push_back({.role = "assistant"});
  return messages.back();
}

Result<void> AddMessage(const Fields& item, std::vector<Message>& messages) {
  KVGATE_TRY(const std::string role, item.String("role"));
  if (role != "user" && role != "assistant" && role != "system" && role != "developer") {
    return RangeError(item.Path("role"), "must be 'user', 'assistant', 'system' or 'developer'");
  }
  const JsonElement* content = item.Find("content");
  if (content == nullptr) return MissingError(item.Path("content"));
  KVGATE_TRY(std::string text, ReadParts(*content, item.Path("content")));
  if (role == "assistant") {
    AssistantTurn(true, messages).content = std::move(text);
  } else {
    messages.push_back({.role = role, .content = std::move(text)});
  }
  return {};
}

Result<void> AddReasoning(const Fields& item, std::vector<Message>& messages) {
  std::string text;
  for (const char* part : {"content", "summary"}) {
    const JsonElement* parts = item.Find(part);
    if (parts == nullptr || !text.empty()) continue;
    KVGATE_TRY(text, ReadParts(*parts, item.Path(part)));
  }
  if (!text.empty()) AssistantTurn(true, messages).reasoning = std::move(text);
  return {};
}

Result<void> AddItem(JsonElement value, const std::string& path, std::vector<Message>& messages) {
  KVGATE_TRY(const Fields item,
             Fields::Read(value, path,
                          {"type", "role", "content", "summary", "call_id", "name", "arguments",
                           "output"}));
  KVGATE_TRY(const std::string type, item.String("type"));
  if (type == "message") return AddMessage(item, messages);
  if (type == "reasoning") return AddReasoning(item, messages);
  if (type == "function_call") {
    ToolCall call;
    KVGATE_TRY(call.id, item.String("call_id"));
    KVGATE_TRY(call.name, item.String("name"));
    KVGATE_TRY(call.arguments, item.String("arguments"));
    AssistantTurn(false, messages).tool_calls.push_back(std::move(call));
    return {};
  }
  if (type != "function_call_output") {
    return UnsupportedError(item.Path("type"), fmt::format("an item of type '{}' is", type));
  }
  Message result{.role = "tool"};
  KVGATE_TRY(result.tool_call_id, item.String("call_id"));
  KVGATE_TRY_VOID(CheckAnswersCall(item.Path("call_id"), result.tool_call_id, messages));
  const JsonElement* output = item.Find("output");
  if (output == nullptr) return MissingError(item.Path("output"));
  KVGATE_TRY(result.content, ReadParts(*output, item.Path("output")));
  messages.push_back(std::move(result));
  return {};
}

Result<void> AddItems(std::span<const std::string> items, std::string_view name,
                      const DecodeLimits& limits, std::vector<Message>& messages) {
  simdjson::dom::parser parser;
  size_t index = 0;
  for (const std::string& item : items) {
    KVGATE_TRY(const JsonObject object, ParseBody(item, limits, parser));
    KVGATE_TRY_VOID(AddItem(object, IndexPath(std::string(name), index++), messages));
    if (messages.size() > limits.messages_max) {
      return RangeError(std::string(name),
                        fmt::format("must have at most {} messages", limits.messages_max));
    }
  }
  return {};
}

}  // namespace

Result<ResponsesRequest> DecodeResponses(std::string_view body, const DecodeLimits& limits) {
  static const std::vector<FieldSpec> fields = WithSamplerFields(kOwnFields);
  simdjson::dom::parser parser;
  KVGATE_TRY(const JsonObject object, ParseBody(body, limits, parser));
  DecodeState state{.limits = limits};
  state.request.dialect = Dialect::kResponses;
  KVGATE_TRY_VOID(ReadFields(object, "", fields, state));
  KVGATE_TRY(const Fields own,
             Fields::Read(object, "", {"input", "instructions", "previous_response_id",
                                       "conversation", "store"}));
  if (!state.has_model) return MissingError("model");
  KVGATE_TRY_VOID(CheckToolChoice("tool_choice", state));
  ResponsesRequest request;
  KVGATE_TRY(request.instructions, own.StringOrEmpty("instructions"));
  KVGATE_TRY(request.previous_response_id, own.StringOrEmpty("previous_response_id"));
  KVGATE_TRY(request.store, own.BoolOr("store", true));
  if (const JsonElement* conversation = own.Find("conversation"); conversation != nullptr) {
    KVGATE_TRY(request.conversation, ReadConversation(*conversation, "conversation"));
    if (!request.previous_response_id.empty()) {
      return RangeError("conversation", "must not stand beside previous_response_id");
    }
  }
  if (const JsonElement* input = own.Find("input"); input != nullptr) {
    KVGATE_TRY_VOID(ReadInput(*input, "input", request));
  }
  if (request.input.empty() && request.previous_response_id.empty() &&
      request.conversation.empty()) {
    return MissingError("input");
  }
  request.echo = EchoOf(object);
  if (!request.conversation.empty()) {
    request.echo += R"(,"conversation":{"id":)";
    AppendJsonString(request.conversation, request.echo);
    request.echo += '}';
  }
  request.request = std::move(state.request);
  return request;
}

Result<void> BuildPrompt(std::span<const std::string> before, const DecodeLimits& limits,
                         ResponsesRequest& request) {
  std::vector<Message> messages;
  if (!request.instructions.empty()) {
    messages.push_back({.role = "system", .content = request.instructions});
  }
  KVGATE_TRY_VOID(AddItems(before, "previous_response_id", limits, messages));
  KVGATE_TRY_VOID(AddItems(request.input, "input", limits, messages));
  if (messages.empty()) return MissingError("input");
  request.request.prompt = std::move(messages);
  return {};
}

}  // namespace kvgate::protocol
