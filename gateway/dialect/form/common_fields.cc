#include "gateway/dialect/form/common_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

namespace kvgate::dialect::form {

namespace {

constexpr int64_t kTokensMax = int64_t{1} << 31;

Result<void> ReadModel(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(state.request.model, ReadString(value, path));
  state.has_model = true;
  return {};
}

Result<void> ReadMaxTokens(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(state.request.max_tokens, ReadInteger(value, path, {.min = 0, .max = kTokensMax}));
  return {};
}

Result<void> ReadSeed(JsonElement value, const std::string& path, DecodeState& state) {
  uint64_t large = 0;
  if (value.get(large) == simdjson::SUCCESS) {
    state.request.seed = large;
    return {};
  }
  KVGATE_TRY(const int64_t number, ReadInteger(value, path, {}));
  state.request.seed = static_cast<uint64_t>(number);
  return {};
}

Result<void> AddStop(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(std::string text, ReadString(value, path));
  if (text.empty()) return RangeError(path, "must not be empty");
  if (text.size() > state.limits.stop_string_bytes_max) {
    return RangeError(
        path, fmt::format("must have at most {} bytes", state.limits.stop_string_bytes_max));
  }
  state.request.stop.push_back(std::move(text));
  return {};
}

Result<void> ReadStream(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(state.request.stream, ReadBool(value, path));
  return {};
}

Result<void> ReadIncludeUsage(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(state.request.include_usage, ReadBool(value, path));
  return {};
}

Result<void> ReadStreamOptions(JsonElement value, const std::string& path, DecodeState& state) {
  static constexpr FieldSpec kFields[] = {{"include_usage", ReadIncludeUsage}};
  KVGATE_TRY(const JsonObject object, ReadObject(value, path));
  state.has_stream_options = true;
  return ReadFields(object, path, kFields, state);
}

Result<void> ReadIgnoreEos(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(state.request.ignore_eos, ReadBool(value, path));
  return {};
}

Result<void> CheckBool(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY([[maybe_unused]] const bool flag, ReadBool(value, path));
  return {};
}

Result<void> ReadN(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const int64_t number,
             ReadInteger(value, path, {.min = 1, .max = state.limits.choices_max}));
  state.request.num_choices = static_cast<int>(number);
  return {};
}

// --- samplers ---------------------------------------------------------------------------------

// Reads a number in a range into a member of the request.
template <float CompletionRequest::*kMember>
Result<void> ReadFloat(JsonElement value, const std::string& path, DecodeState& state,
                       NumberRange range) {
  KVGATE_TRY(const double number, ReadNumber(value, path, range));
  state.request.*kMember = static_cast<float>(number);
  return {};
}

template <float CompletionRequest::*kMember>
Result<void> ReadProbability(JsonElement value, const std::string& path, DecodeState& state) {
  return ReadFloat<kMember>(value, path, state, {.min = 0, .max = 1});
}

template <float CompletionRequest::*kMember>
Result<void> ReadPenalty(JsonElement value, const std::string& path, DecodeState& state) {
  return ReadFloat<kMember>(value, path, state, {.min = -2, .max = 2});
}

Result<void> ReadTemperature(JsonElement value, const std::string& path, DecodeState& state) {
  return ReadFloat<&CompletionRequest::temperature>(value, path, state, {.min = 0, .max = 2});
}

// -1 is how llama.cpp spells "off".
Result<void> ReadTopNSigma(JsonElement value, const std::string& path, DecodeState& state) {
  return ReadFloat<&CompletionRequest::top_n_sigma>(value, path, state, {.min = -1, .max = 100});
}

// -1 is how some clients spell "off".
Result<void> ReadTopK(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const int64_t number, ReadInteger(value, path, {.min = -1, .max = 1 << 30}));
  state.request.top_k = number < 0 ? 0 : static_cast<int>(number);
  return {};
}

// vLLM and llama.cpp have different names for this field.
Result<void> ReadRepetitionPenalty(JsonElement value, const std::string& path, DecodeState& state) {
  if (state.has_repetition_penalty) {
    return RangeError(path, "is another name of a field that is given already");
  }
  state.has_repetition_penalty = true;
  return ReadFloat<&CompletionRequest::repetition_penalty>(value, path, state,
                                                           {.min = 0.01, .max = 100});
}

Result<void> ReadRepeatLastN(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const int64_t number, ReadInteger(value, path, {.min = -1, .max = 1 << 30}));
  state.request.repeat_last_n = static_cast<int>(number);
  return {};
}

// Reads {"token id": bias}. An id outside the vocabulary is reported later, by code that knows the
// model.
Result<void> ReadLogitBias(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const JsonObject object, ReadObject(value, path));
  if (object.size() > state.limits.logit_biases_max) {
    return RangeError(path,
                      fmt::format("must have at most {} tokens", state.limits.logit_biases_max));
  }
  std::vector<TokenBias>& biases = state.request.logit_bias;
  for (const simdjson::dom::key_value_pair field : object) {
    TokenBias bias;
    const char* const end = field.key.data() + field.key.size();
    const auto [parsed_end, problem] = std::from_chars(field.key.data(), end, bias.token);
    if (problem != std::errc() || parsed_end != end || bias.token < 0) {
      return RangeError(path, fmt::format("must have token ids as its keys, which '{}' is not",
                                          field.key.substr(0, 40)));
    }
    KVGATE_TRY(const double number, ReadNumber(field.value, fmt::format("{}.{}", path, bias.token),
                                               {.min = -100, .max = 100}));
    bias.bias = static_cast<float>(number);
    biases.push_back(bias);
  }
  std::sort(biases.begin(), biases.end(),
            [](const TokenBias& a, const TokenBias& b) { return a.token < b.token; });
  const auto twice =
      std::adjacent_find(biases.begin(), biases.end(),
                         [](const TokenBias& a, const TokenBias& b) { return a.token == b.token; });
  if (twice != biases.end()) {
    return RangeError(path,
                      fmt::format("must have each token once, but has {} twice", twice->token));
  }
  return {};
}

// --- the form of the answer ------------------------------------------------------------------

Result<void> SetOutput(OutputFormat output, DecodeState& state) {
  if (state.request.output.kind != OutputKind::kAnyText) {
    return RangeError(output.field, fmt::format("must not be given together with '{}'",
                                                state.request.output.field));
  }
  state.request.output = std::move(output);
  return {};
}

// The schema's content is checked later, by the schema compiler.
Result<void> ReadSchema(JsonElement value, const std::string& path, DecodeState& state) {
  if (!value.is_object() && !value.is_bool()) return TypeError(path, "a JSON schema", value);
  return SetOutput(
      {.kind = OutputKind::kJsonSchema, .text = simdjson::minify(value), .field = path}, state);
}

// Reads {name, description, schema, strict}. The name and description have no effect, and the
// answer always follows the schema strictly.
Result<void> ReadNamedSchema(JsonElement value, const std::string& path, DecodeState& state) {
  static constexpr FieldSpec kFields[] = {{"name", CheckText},
                                          {"description", CheckText},
                                          {"schema", ReadSchema},
                                          {"strict", CheckBool}};
  KVGATE_TRY(const JsonObject object, ReadObject(value, path));
  KVGATE_TRY_VOID(ReadFields(object, path, kFields, state));
  if (state.request.output.kind != OutputKind::kJsonSchema) return MissingError(path + ".schema");
  return {};
}

Result<std::string> ReadFormatType(const JsonObject& format, const std::string& path) {
  JsonElement value;
  if (format.at_key("type").get(value) != simdjson::SUCCESS) return MissingError(path + ".type");
  KVGATE_TRY(std::string type, ReadString(value, path + ".type"));
  if (type == "text" || type == "json_object" || type == "json_schema") return type;
  return RangeError(path + ".type", "must be one of 'text', 'json_object', 'json_schema'");
}

Result<void> ReadResponseFormat(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const JsonObject object, ReadObject(value, path));
  KVGATE_TRY(const std::string name, ReadFormatType(object, path));
  if (name == "text") return {};
  if (name == "json_object") {
    // llama.cpp accepts a schema here, too.
    static constexpr FieldSpec kFields[] = {{"schema", ReadSchema}};
    KVGATE_TRY_VOID(ReadFields(object, path, kFields, state));
    if (state.request.output.field == path + ".schema") return {};
    return SetOutput({.kind = OutputKind::kJsonObject, .field = path}, state);
  }
  static constexpr FieldSpec kFields[] = {{"json_schema", ReadNamedSchema}};
  KVGATE_TRY_VOID(ReadFields(object, path, kFields, state));
  if (state.request.output.kind != OutputKind::kJsonSchema) {
    return MissingError(path + ".json_schema");
  }
  return {};
}

Result<void> ReadGrammar(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(std::string text, ReadString(value, path));
  if (text.empty()) return {};  // some clients send an empty grammar for none
  return SetOutput({.kind = OutputKind::kGbnf, .text = std::move(text), .field = path}, state);
}

constexpr FieldSpec kSamplerFields[] = {
    {"model", ReadModel},
    {"max_tokens", ReadMaxTokens},
    {"temperature", ReadTemperature},
    {"top_p", ReadProbability<&CompletionRequest::top_p>},
    {"min_p", ReadProbability<&CompletionRequest::min_p>},
    {"typical_p", ReadProbability<&CompletionRequest::typical_p>},
    {"xtc_probability", ReadProbability<&CompletionRequest::xtc_probability>},
    {"xtc_threshold", ReadProbability<&CompletionRequest::xtc_threshold>},
    {"top_n_sigma", ReadTopNSigma},
    {"top_k", ReadTopK},
    {"seed", ReadSeed},
    {"stream", ReadStream},
    {"ignore_eos", ReadIgnoreEos},
    {"presence_penalty", ReadPenalty<&CompletionRequest::presence_penalty>},
    {"frequency_penalty", ReadPenalty<&CompletionRequest::frequency_penalty>},
    {"repetition_penalty", ReadRepetitionPenalty},
    {"repeat_penalty", ReadRepetitionPenalty},
    {"repeat_last_n", ReadRepeatLastN},
    {"logit_bias", ReadLogitBias},
    {"grammar", ReadGrammar},
};

constexpr FieldSpec kCompletionFields[] = {
    {"stop", ReadStop}, {"stream_options", ReadStreamOptions},   {"user", CheckText},
    {"n", ReadN},       {"response_format", ReadResponseFormat}, {"json_schema", ReadSchema},
};

}  // namespace

Result<void> ReadTopLogprobs(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const int64_t number, ReadInteger(value, path, {.min = 0, .max = 20}));
  state.top_logprobs = static_cast<int>(number);
  return {};
}

std::vector<Message>& Messages(DecodeState& state) {
  return std::get<std::vector<Message>>(state.request.prompt);
}

// The text is checked and dropped. For example, `user` only names an end user for a provider's
// abuse desk.
Result<void> CheckText(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY([[maybe_unused]] const std::string user, ReadString(value, path));
  return {};
}

Result<void> ReadReasoningEffort(JsonElement value, const std::string& path, DecodeState& state) {
  static constexpr std::array<std::string_view, 7> kEfforts = {"none", "minimal", "low", "medium",
                                                               "high", "xhigh",   "max"};
  KVGATE_TRY(std::string effort, ReadString(value, path));
  if (std::find(kEfforts.begin(), kEfforts.end(), effort) == kEfforts.end()) {
    return RangeError(path,
                      "must be one of 'none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'");
  }
  if (effort == "none") {
    state.request.thinking = false;
  } else {
    state.request.reasoning_effort = std::move(effort);
  }
  return {};
}

Result<void> ReadStop(JsonElement value, const std::string& path, DecodeState& state) {
  if (value.is_string()) return AddStop(value, path, state);
  JsonArray array;
  if (value.get(array) != simdjson::SUCCESS) {
    return TypeError(path, "a string or an array of strings", value);
  }
  if (array.size() > state.limits.stop_strings_max) {
    return RangeError(path,
                      fmt::format("must have at most {} strings", state.limits.stop_strings_max));
  }
  size_t index = 0;
  for (const JsonElement element : array) {
    KVGATE_TRY_VOID(AddStop(element, IndexPath(path, index++), state));
  }
  return {};
}

Result<void> ReadFlatFormat(JsonElement value, const std::string& path, DecodeState& state) {
  static constexpr FieldSpec kFields[] = {{"name", CheckText},
                                          {"description", CheckText},
                                          {"schema", ReadSchema},
                                          {"strict", CheckBool}};
  KVGATE_TRY(const JsonObject object, ReadObject(value, path));
  KVGATE_TRY(const std::string type, ReadFormatType(object, path));
  if (type == "text") return {};
  if (type == "json_object") {
    return SetOutput({.kind = OutputKind::kJsonObject, .field = path}, state);
  }
  KVGATE_TRY_VOID(ReadFields(object, path, kFields, state));
  if (state.request.output.kind != OutputKind::kJsonSchema) return MissingError(path + ".schema");
  return {};
}

std::vector<FieldSpec> WithSamplerFields(std::span<const FieldSpec> own) {
  std::vector<FieldSpec> fields(std::begin(kSamplerFields), std::end(kSamplerFields));
  fields.insert(fields.end(), own.begin(), own.end());
  return fields;
}

std::vector<FieldSpec> WithCommonFields(std::span<const FieldSpec> own) {
  std::vector<FieldSpec> fields = WithSamplerFields(kCompletionFields);
  fields.insert(fields.end(), own.begin(), own.end());
  return fields;
}

Result<void> FinishCommonFields(DecodeState& state) {
  if (!state.has_model) return MissingError("model");
  if (state.has_stream_options && !state.request.stream) {
    return RangeError("stream_options", "is only allowed when stream is true");
  }
  return {};
}

}  // namespace kvgate::dialect::form
