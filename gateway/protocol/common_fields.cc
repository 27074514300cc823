#include "gateway/protocol/common_fields.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace kvgate::protocol {
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

Result<void> ReadTemperature(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const double number, ReadNumber(value, path, {.min = 0, .max = 2}));
  state.request.temperature = static_cast<float>(number);
  return {};
}

Result<void> ReadTopP(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const double number, ReadNumber(value, path, {.min = 0, .max = 1}));
  state.request.top_p = static_cast<float>(number);
  return {};
}

Result<void> ReadMinP(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const double number, ReadNumber(value, path, {.min = 0, .max = 1}));
  state.request.min_p = static_cast<float>(number);
  return {};
}

// -1 is how some clients spell "off".
Result<void> ReadTopK(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const int64_t number, ReadInteger(value, path, {.min = -1, .max = 1 << 30}));
  state.request.top_k = number < 0 ? 0 : static_cast<int>(number);
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

// Checked and dropped: it names an end user to a provider's abuse desk, and decides nothing here.
Result<void> ReadUser(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY([[maybe_unused]] const std::string user, ReadString(value, path));
  return {};
}

Result<void> ReadN(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY(const int64_t number, ReadInteger(value, path, {.min = 1, .max = 128}));
  if (number != 1) return UnsupportedError(path, "more than one choice is");
  return {};
}

Result<void> ReadPenalty(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY(const double number, ReadNumber(value, path, {.min = -2, .max = 2}));
  if (number != 0) return UnsupportedError(path, "penalties other than 0 are");
  return {};
}

Result<void> ReadRepetitionPenalty(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY(const double number, ReadNumber(value, path, {.min = 0, .max = 100}));
  if (number != 1) return UnsupportedError(path, "penalties other than 1 are");
  return {};
}

Result<void> ReadLogitBias(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY(const JsonObject object, ReadObject(value, path));
  if (object.size() != 0) return UnsupportedError(path, "a logit bias is");
  return {};
}

Result<void> ReadResponseFormat(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY(const JsonObject object, ReadObject(value, path));
  JsonElement type;
  if (object.at_key("type").get(type) != simdjson::SUCCESS) return MissingError(path + ".type");
  KVGATE_TRY(const std::string name, ReadString(type, path + ".type"));
  if (name != "text") return UnsupportedError(path + ".type", "a format other than \"text\" is");
  return {};
}

constexpr FieldSpec kCommonFields[] = {
    {"model", ReadModel},
    {"max_tokens", ReadMaxTokens},
    {"temperature", ReadTemperature},
    {"top_p", ReadTopP},
    {"min_p", ReadMinP},
    {"top_k", ReadTopK},
    {"seed", ReadSeed},
    {"stop", ReadStop},
    {"stream", ReadStream},
    {"stream_options", ReadStreamOptions},
    {"ignore_eos", ReadIgnoreEos},
    {"user", ReadUser},
    {"n", ReadN},
    {"presence_penalty", ReadPenalty},
    {"frequency_penalty", ReadPenalty},
    {"repetition_penalty", ReadRepetitionPenalty},
    {"logit_bias", ReadLogitBias},
    {"response_format", ReadResponseFormat},
};

}  // namespace

std::vector<FieldSpec> WithCommonFields(std::span<const FieldSpec> own) {
  std::vector<FieldSpec> fields(std::begin(kCommonFields), std::end(kCommonFields));
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

}  // namespace kvgate::protocol
