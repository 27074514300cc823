#include "gateway/dialect/embeddings/embeddings.h"

#include <fmt/format.h>

#include <bit>
#include <iterator>
#include <limits>
#include <utility>

#include "base/base64.h"
#include "gateway/dialect/form/field_reader.h"
#include "gateway/dialect/form/json_writer.h"

namespace kvgate::dialect::embeddings {

using form::JsonArray;
using form::JsonElement;
using form::JsonObject;

namespace {

constexpr int kDimensionsMax = 1 << 20;

Result<std::vector<TokenId>> ReadTokens(JsonArray array, const std::string& path) {
  if (array.size() == 0) return form::RangeError(path, "must not be an empty array");
  std::vector<TokenId> tokens;
  tokens.reserve(array.size());
  for (const JsonElement element : array) {
    KVGATE_TRY(const int64_t token,
               form::ReadInteger(element, form::IndexPath(path, tokens.size()),
                                 {.min = 0, .max = std::numeric_limits<TokenId>::max()}));
    tokens.push_back(static_cast<TokenId>(token));
  }
  return tokens;
}

Result<std::string> ReadText(JsonElement value, const std::string& path) {
  KVGATE_TRY(std::string text, form::ReadString(value, path));
  if (text.empty()) return form::RangeError(path, "must not be an empty string");
  return text;
}

Result<void> ReadInput(JsonElement value, EmbeddingRequest& request) {
  const std::string path = "input";
  if (value.is_string()) {
    KVGATE_TRY(std::string text, ReadText(value, path));
    request.inputs.emplace_back(std::move(text));
    return {};
  }
  JsonArray array;
  if (value.get(array) != simdjson::SUCCESS) {
    return form::TypeError(path, "a string, an array of strings or arrays of token ids", value);
  }
  if (array.size() == 0) return form::RangeError(path, "must not be an empty array");
  const JsonElement first = array.at(0).value_unsafe();
  if (!first.is_string() && !first.is_array()) {
    KVGATE_TRY(std::vector<TokenId> tokens, ReadTokens(array, path));
    request.inputs.emplace_back(std::move(tokens));
    return {};
  }
  request.is_list = true;
  size_t index = 0;
  for (const JsonElement element : array) {
    const std::string at = form::IndexPath(path, index++);
    if (index > kEmbeddingInputsMax) {
      return form::RangeError(path,
                              fmt::format("must have at most {} inputs", kEmbeddingInputsMax));
    }
    if (first.is_string()) {
      KVGATE_TRY(std::string text, ReadText(element, at));
      request.inputs.emplace_back(std::move(text));
    } else {
      KVGATE_TRY(const JsonArray tokens, form::ReadArray(element, at));
      KVGATE_TRY(std::vector<TokenId> read, ReadTokens(tokens, at));
      request.inputs.emplace_back(std::move(read));
    }
  }
  return {};
}

void AppendVector(std::span<const float> vector, bool is_base64, std::string& out) {
  if (is_base64) {
    static_assert(std::endian::native == std::endian::little, "the order of the answer's bytes");
    out.push_back('"');
    out +=
        EncodeBase64({reinterpret_cast<const char*>(vector.data()), vector.size() * sizeof(float)});
    out.push_back('"');
    return;
  }
  out.push_back('[');
  for (size_t i = 0; i < vector.size(); ++i) {
    if (i > 0) out.push_back(',');
    fmt::format_to(std::back_inserter(out), "{}", vector[i]);  // the fewest digits that tell it
  }
  out.push_back(']');
}

}  // namespace

Result<EmbeddingRequest> DecodeEmbeddings(std::string_view body, const form::DecodeLimits& limits) {
  simdjson::dom::parser parser;
  KVGATE_TRY(const JsonObject object, form::ParseBody(body, limits, parser));
  KVGATE_TRY(
      const form::Fields fields,
      form::Fields::Read(object, "", {"model", "input", "encoding_format", "dimensions", "user"}));
  EmbeddingRequest request;
  KVGATE_TRY(request.model, fields.StringOrEmpty("model"));
  KVGATE_TRY([[maybe_unused]] const std::string user, fields.StringOrEmpty("user"));
  const JsonElement* const input = fields.Find("input");
  if (input == nullptr) return form::MissingError("input");
  KVGATE_TRY_VOID(ReadInput(*input, request));
  KVGATE_TRY(const std::string format, fields.StringOrEmpty("encoding_format"));
  if (!format.empty() && format != "float" && format != "base64") {
    return form::RangeError("encoding_format", "must be \"float\" or \"base64\"");
  }
  request.is_base64 = format == "base64";
  if (const JsonElement* const value = fields.Find("dimensions"); value != nullptr) {
    KVGATE_TRY(const int64_t dimensions,
               form::ReadInteger(*value, "dimensions", {.min = 1, .max = kDimensionsMax}));
    request.dimensions = static_cast<int>(dimensions);
  }
  return request;
}

std::string EmbeddingInputPath(bool is_list, size_t index) {
  return is_list ? form::IndexPath("input", index) : "input";
}

std::string EncodeEmbeddings(const EmbeddingReply& reply) {
  std::string out;
  out.reserve(reply.vectors.size() * (reply.is_base64 ? 6 : 13) + 256);
  out += R"({"object":"list","data":[)";
  for (size_t i = 0; i * reply.dimensions < reply.vectors.size(); ++i) {
    if (i > 0) out.push_back(',');
    fmt::format_to(std::back_inserter(out), R"({{"object":"embedding","index":{},"embedding":)", i);
    AppendVector(reply.vectors.subspan(i * reply.dimensions, reply.dimensions), reply.is_base64,
                 out);
    out.push_back('}');
  }
  out += R"(],"model":)";
  form::AppendJsonString(reply.model, out);
  fmt::format_to(std::back_inserter(out),
                 R"(,"usage":{{"prompt_tokens":{0},"total_tokens":{0}}}}})", reply.num_tokens);
  return out;
}

}  // namespace kvgate::dialect::embeddings
