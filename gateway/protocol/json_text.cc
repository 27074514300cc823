#include "gateway/protocol/json_text.h"

#include <algorithm>
#include <vector>

#include "gateway/protocol/json_value.h"
#include "gateway/protocol/json_writer.h"

namespace kvgate::protocol {
namespace {

constexpr size_t kDepthMax = 64;

// The value lives in `parser`.
std::optional<JsonElement> Parse(std::string_view text, simdjson::dom::parser& parser) {
  JsonElement root;
  if (parser.allocate(std::max<size_t>(text.size(), 64), kDepthMax) != simdjson::SUCCESS ||
      parser.parse(text.data(), text.size(), true).get(root) != simdjson::SUCCESS) {
    return std::nullopt;
  }
  return root;
}

void WriteSorted(JsonElement value, std::string& out) {
  if (JsonArray array; value.get(array) == simdjson::SUCCESS) {
    out += '[';
    for (const JsonElement item : array) {
      if (out.back() != '[') out += ',';
      WriteSorted(item, out);
    }
    out += ']';
    return;
  }
  JsonObject object;
  if (value.get(object) != simdjson::SUCCESS) {
    out += ToJson(value);
    return;
  }
  std::vector<simdjson::dom::key_value_pair> fields;
  for (const simdjson::dom::key_value_pair field : object) fields.push_back(field);
  std::stable_sort(fields.begin(), fields.end(),
                   [](const auto& a, const auto& b) { return a.key < b.key; });
  out += '{';
  for (const simdjson::dom::key_value_pair& field : fields) {
    if (out.back() != '{') out += ',';
    AppendJsonString(field.key, out);
    out += ':';
    WriteSorted(field.value, out);
  }
  out += '}';
}

}  // namespace

std::optional<jinja::Data> ParseObject(std::string_view text) {
  simdjson::dom::parser parser;
  const std::optional<JsonElement> value = Parse(text, parser);
  if (!value || !value->is_object()) return std::nullopt;
  return ToData(*value);
}

std::string AsObject(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return "{}";
  simdjson::dom::parser parser;
  const std::optional<JsonElement> value = Parse(text, parser);
  if (value && value->is_object()) return std::string(text);
  std::string object = R"({"arguments":)";
  if (value) {
    object += text;
  } else {
    AppendJsonString(text, object);
  }
  return object + "}";
}

std::string CanonicalJson(std::string_view text) {
  simdjson::dom::parser parser;
  const std::optional<JsonElement> value = Parse(text, parser);
  if (!value) return std::string(text);
  std::string out;
  WriteSorted(*value, out);
  return out;
}

}  // namespace kvgate::protocol
