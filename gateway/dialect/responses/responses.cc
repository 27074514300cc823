#include "gateway/dialect/responses/responses.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/utf8.h"
#include "gateway/dialect/form/common_fields.h"
#include "gateway/dialect/form/field_reader.h"
#include "gateway/dialect/form/json_value.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/dialect/form/tools.h"
#include "gateway/dialect/responses/item_reader.h"

namespace kvgate::dialect::responses {

using reply::ResponseShape;

using form::CheckText;
using form::DecodeState;
using form::Fields;
using form::JsonArray;
using form::JsonElement;
using form::JsonObject;
using form::RangeError;

namespace {

constexpr size_t kMetadataPairsMax = 16;
constexpr size_t kMetadataKeyBytesMax = 64;
constexpr size_t kMetadataValueCharactersMax = 512;
constexpr int64_t kTokensMax = int64_t{1} << 31;

// --- fields that shape the answer ---------------------------------------------------------------

Result<void> ReadReasoning(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const Fields fields,
             Fields::Read(value, path, {"effort", "summary", "generate_summary"}));
  if (const JsonElement* effort = fields.Find("effort"); effort != nullptr) {
    KVGATE_TRY_VOID(form::ReadReasoningEffort(*effort, fields.Path("effort"), state));
  }
  for (const char* name : {"summary", "generate_summary"}) {
    KVGATE_TRY(const std::string summary, fields.StringOrEmpty(name));
    if (summary.empty() || summary == "auto" || summary == "concise" || summary == "detailed") {
      continue;
    }
    return RangeError(fields.Path(name), "must be 'auto', 'concise' or 'detailed'");
  }
  return {};
}

Result<void> ReadText(JsonElement value, const std::string& path, DecodeState& state) {
  static constexpr form::FieldSpec kFields[] = {{"format", form::ReadFlatFormat},
                                                {"verbosity", CheckText}};
  KVGATE_TRY(const JsonObject object, form::ReadObject(value, path));
  return form::ReadFields(object, path, kFields, state);
}

Result<void> ReadMaxOutputTokens(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(state.max_completion_tokens,
             form::ReadInteger(value, path, {.min = 1, .max = kTokensMax}));
  return {};
}

Result<void> ReadInclude(JsonElement value, const std::string& path, DecodeState& state) {
  static constexpr std::array<std::string_view, 9> kKnown = {
      "reasoning.encrypted_content",      "message.output_text.logprobs",
      "message.input_image.image_url",    "file_search_call.results",
      "web_search_call.results",          "web_search_call.action.sources",
      "code_interpreter_call.outputs",    "computer_call_output.output.image_url",
      "computer_call_output.output.image"};
  KVGATE_TRY(const JsonArray array, form::ReadArray(value, path));
  size_t index = 0;
  for (const JsonElement element : array) {
    const std::string element_path = form::IndexPath(path, index++);
    KVGATE_TRY(const std::string name, form::ReadString(element, element_path));
    if (std::find(kKnown.begin(), kKnown.end(), name) == kKnown.end()) {
      return RangeError(element_path, fmt::format("must be something that can be included, which "
                                                  "'{}' is not",
                                                  name.substr(0, 80)));
    }
    state.logprobs = state.logprobs || name == "message.output_text.logprobs";
  }
  return {};
}

Result<void> ReadStreamOptions(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const Fields fields, Fields::Read(value, path, {"include_obfuscation"}));
  KVGATE_TRY([[maybe_unused]] const bool flag, fields.BoolOr("include_obfuscation", false));
  state.has_stream_options = true;
  return {};
}

// --- fields that are checked, and repeated at most ----------------------------------------------

Result<void> RefuseBackground(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY(const bool background, form::ReadBool(value, path));
  if (background) return form::UnsupportedError(path, "a response in the background is");
  return {};
}

Result<void> RefusePrompt(JsonElement, const std::string& path, DecodeState&) {
  return form::UnsupportedError(path, "a prompt that a provider keeps is");
}

Result<void> CheckMaxToolCalls(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY([[maybe_unused]] const int64_t number,
             form::ReadInteger(value, path, {.min = 1, .max = kTokensMax}));
  return {};
}

Result<void> CheckMetadata(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY(const JsonObject object, form::ReadObject(value, path));
  if (object.size() > kMetadataPairsMax) {
    return RangeError(path, fmt::format("must have at most {} pairs", kMetadataPairsMax));
  }
  for (const simdjson::dom::key_value_pair field : object) {
    if (field.key.size() > kMetadataKeyBytesMax) {
      return RangeError(path,
                        fmt::format("must have keys of at most {} bytes", kMetadataKeyBytesMax));
    }
    const std::string field_path = fmt::format("{}.{}", path, field.key);
    KVGATE_TRY(const std::string text, form::ReadString(field.value, field_path));
    if (CountUtf8Characters(text) > kMetadataValueCharactersMax) {
      return RangeError(
          field_path, fmt::format("must have at most {} characters", kMetadataValueCharactersMax));
    }
  }
  return {};
}

constexpr form::FieldSpec kOwnFields[] = {
    {"tools", form::ReadFlatTools},
    {"tool_choice", form::ReadToolChoice},
    {"parallel_tool_calls", form::ReadParallelToolCalls},
    {"reasoning", ReadReasoning},
    {"text", ReadText},
    {"max_output_tokens", ReadMaxOutputTokens},
    {"include", ReadInclude},
    {"top_logprobs", form::ReadTopLogprobs},
    {"stop", form::ReadStop},
    {"stream_options", ReadStreamOptions},
    {"background", RefuseBackground},
    {"prompt", RefusePrompt},
    {"max_tool_calls", CheckMaxToolCalls},
    {"metadata", CheckMetadata},
    {"user", CheckText},
    {"safety_identifier", CheckText},
    {"prompt_cache_key", CheckText},
    {"prompt_cache_retention", CheckText},
    {"service_tier", CheckText},
};

// --- what a response repeats --------------------------------------------------------------------

// A member that the response copies from its request, and its value if the request lacks it.
struct Echo {
  std::string_view name;
  std::string_view fallback;  // JSON, used if the request lacks the member
};
constexpr Echo kEchoes[] = {
    {"instructions", "null"},        {"max_output_tokens", "null"},
    {"max_tool_calls", "null"},      {"metadata", "{}"},
    {"parallel_tool_calls", "true"}, {"previous_response_id", "null"},
    {"prompt_cache_key", "null"},    {"prompt_cache_retention", "null"},
    {"safety_identifier", "null"},   {"temperature", "1.0"},
    {"tool_choice", R"("auto")"},    {"tools", "[]"},
    {"top_logprobs", "0"},           {"top_p", "1.0"},
    {"truncation", R"("disabled")"}, {"user", "null"},
};

std::string MemberOr(JsonObject object, std::string_view name, std::string_view fallback) {
  JsonElement value;
  const bool given = object.at_key(name).get(value) == simdjson::SUCCESS && !value.is_null();
  return given ? form::ToJson(value) : std::string(fallback);
}

// Encodes an object with two members, each with its fallback.
std::string PairOf(JsonObject body, std::string_view name, const Echo& first, const Echo& second) {
  JsonObject object;
  const bool given = body.at_key(name).get(object) == simdjson::SUCCESS;
  const auto member = [&](const Echo& echo) {
    return given ? MemberOr(object, echo.name, echo.fallback) : std::string(echo.fallback);
  };
  return fmt::format(R"(,"{}":{{"{}":{},"{}":{}}})", name, first.name, member(first), second.name,
                     member(second));
}

std::string EchoOf(JsonObject body, const std::string& conversation) {
  std::string echo;
  for (const Echo& member : kEchoes) {
    echo += fmt::format(R"(,"{}":{})", member.name, MemberOr(body, member.name, member.fallback));
  }
  echo += PairOf(body, "reasoning", {"effort", "null"}, {"summary", "null"});
  echo += PairOf(body, "text", {"format", R"({"type":"text"})"}, {"verbosity", R"("medium")"});
  echo += R"(,"conversation":)";
  form::JsonWriter json(echo);
  if (conversation.empty()) {
    json.Null();
  } else {
    json.BeginObject().Key("id").String(conversation).EndObject();
  }
  return echo.substr(1);
}

// Reads "conv_…" or {"id":"conv_…"}.
Result<std::string> ReadConversation(JsonElement value, const std::string& path) {
  if (value.is_string()) return form::ReadString(value, path);
  KVGATE_TRY(const Fields fields, Fields::Read(value, path, {"id"}));
  return fields.String("id");
}

// Determines, besides the echo, which forms of the reasoning the client asks for.
ResponseShape ShapeOf(JsonObject body, const std::string& conversation) {
  ResponseShape shape{.echo = EchoOf(body, conversation)};
  JsonObject reasoning;
  if (body.at_key("reasoning").get(reasoning) == simdjson::SUCCESS) {
    shape.summary = MemberOr(reasoning, "summary", "") != "" ||
                    MemberOr(reasoning, "generate_summary", "") != "";
  }
  JsonArray include;
  if (body.at_key("include").get(include) == simdjson::SUCCESS) {
    for (const JsonElement name : include) {
      std::string_view text;
      shape.encrypted_reasoning |=
          name.get(text) == simdjson::SUCCESS && text == "reasoning.encrypted_content";
    }
  }
  return shape;
}

Result<void> ReadWhence(const Fields& own, ResponsesRequest& request) {
  KVGATE_TRY(request.previous_response_id, own.StringOrEmpty("previous_response_id"));
  if (const JsonElement* conversation = own.Find("conversation"); conversation != nullptr) {
    KVGATE_TRY(request.conversation, ReadConversation(*conversation, "conversation"));
  }
  if (!request.conversation.empty() && !request.previous_response_id.empty()) {
    return RangeError("conversation", "must not stand beside previous_response_id");
  }
  return {};
}

// Reads tools that are items of the input, so that a tool choice may name them. PromptBuilder
// checks the rest of each item.
Result<void> ReadItemTools(JsonElement input, DecodeState& state) {
  JsonArray items;
  if (input.get(items) != simdjson::SUCCESS) return {};
  size_t index = 0;
  for (const JsonElement item : items) {
    const std::string path = form::IndexPath("input", index++);
    std::string_view type;
    if (item["type"].get(type) != simdjson::SUCCESS) continue;
    if (type != "additional_tools" && type != "tool_search_output") continue;
    KVGATE_TRY(const Fields fields, Fields::Read(item, path, {"tools"}));
    const JsonElement* tools = fields.Find("tools");
    if (tools != nullptr) KVGATE_TRY_VOID(form::ReadMoreTools(*tools, fields.Path("tools"), state));
  }
  return {};
}

void TakeLimits(DecodeState& state) {
  if (state.max_completion_tokens) state.request.max_tokens = state.max_completion_tokens;
  if (state.logprobs || state.top_logprobs > 0) {
    state.request.num_logprobs = std::max(state.top_logprobs, 0);
  }
}

}  // namespace

Result<ResponsesRequest> DecodeResponses(const DecodeResponsesArgs& args,
                                         const form::DecodeLimits& limits) {
  static const std::vector<form::FieldSpec> fields = form::WithSamplerFields(kOwnFields);
  simdjson::dom::parser parser;
  KVGATE_TRY(const JsonObject object, form::ParseBody(args.body, limits, parser));
  DecodeState state{.limits = limits};
  state.request.dialect = form::Dialect::kResponses;
  KVGATE_TRY_VOID(form::ReadFields(object, "", fields, state));
  if (!state.has_model) return form::MissingError("model");
  if (state.has_stream_options && !state.request.stream) {
    return RangeError("stream_options", "is only allowed when stream is true");
  }
  if (JsonElement input; object.at_key("input").get(input) == simdjson::SUCCESS) {
    KVGATE_TRY_VOID(ReadItemTools(input, state));
  }
  KVGATE_TRY_VOID(form::CheckToolChoice("tool_choice", state));
  TakeLimits(state);
  KVGATE_TRY(const Fields own, Fields::Read(object, "",
                                            {"input", "instructions", "previous_response_id",
                                             "conversation", "store", "truncation"}));
  ResponsesRequest request;
  KVGATE_TRY(request.instructions, own.StringOrEmpty("instructions"));
  KVGATE_TRY(request.store, own.BoolOr("store", true));
  KVGATE_TRY(const std::string truncation, own.StringOrEmpty("truncation"));
  request.truncates = truncation == "auto";
  request.keeps_all = truncation == "disabled";
  if (!truncation.empty() && truncation != "disabled" && !request.truncates) {
    return RangeError("truncation", "must be 'auto' or 'disabled'");
  }
  KVGATE_TRY_VOID(ReadWhence(own, request));
  if (const JsonElement* input = own.Find("input"); input != nullptr) {
    KVGATE_TRY(request.input, responses::ReadItems(*input, "input", args.request_id));
  }
  if (request.input.empty() && request.previous_response_id.empty() &&
      request.conversation.empty()) {
    return own.Find("input") == nullptr ? form::MissingError("input")
                                        : RangeError("input", "must have at least one item");
  }
  request.shape = ShapeOf(object, request.conversation);
  request.request = std::move(state.request);
  return request;
}

Result<ConversationBody> DecodeConversation(const DecodeResponsesArgs& args,
                                            const form::DecodeLimits& limits) {
  simdjson::dom::parser parser;
  ConversationBody conversation;
  if (args.body.empty()) return conversation;
  KVGATE_TRY(const JsonObject object, form::ParseBody(args.body, limits, parser));
  KVGATE_TRY(const Fields fields, Fields::Read(object, "", {"items", "metadata"}));
  if (const JsonElement* items = fields.Find("items"); items != nullptr) {
    KVGATE_TRY([[maybe_unused]] const JsonArray array, form::ReadArray(*items, "items"));
    KVGATE_TRY(conversation.items, responses::ReadItems(*items, "items", args.request_id));
  }
  for (size_t i = 0; i < conversation.items.size(); ++i) {
    if (!conversation.items[i].is_reference) continue;
    return form::UnsupportedError(form::IndexPath("items", i) + ".type",
                                  "a reference to an item is");
  }
  if (const JsonElement* metadata = fields.Find("metadata"); metadata != nullptr) {
    DecodeState state{.limits = limits};
    KVGATE_TRY_VOID(CheckMetadata(*metadata, "metadata", state));
    conversation.metadata = form::ToJson(*metadata);
  }
  return conversation;
}

Result<std::vector<responses::ResponsesItem>> OutputOf(std::string_view response) {
  simdjson::dom::parser parser;
  JsonElement output;
  if (parser.parse(response.data(), response.size(), true)["output"].get(output) !=
      simdjson::SUCCESS) {
    return MakeError(ErrorCode::kDataLoss, "protocol", "a kept response has no output");
  }
  return responses::ParseItems(form::ToJson(output));
}

std::string EncodeInputTokens(int64_t num_tokens) {
  return fmt::format(R"({{"object":"response.input_tokens","input_tokens":{}}})", num_tokens);
}

std::string EncodeConversation(const ConversationView& conversation) {
  std::string out;
  form::JsonWriter json(out);
  json.BeginObject().Key("id").String(conversation.id).Key("object").String("conversation");
  json.Key("created_at").Integer(conversation.created_unix);
  json.Key("metadata").Raw(conversation.metadata.empty() ? "{}" : conversation.metadata);
  json.EndObject();
  return out;
}

std::string EncodeDeleted(std::string_view id, std::string_view object) {
  std::string out;
  form::JsonWriter json(out);
  json.BeginObject().Key("id").String(id).Key("object").String(object);
  json.Key("deleted").Bool(true).EndObject();
  return out;
}

}  // namespace kvgate::dialect::responses
