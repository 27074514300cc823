#include "gateway/dialect/form/field_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace kvgate::dialect::form {
namespace {

constexpr std::string_view kSource = "protocol";

std::string_view TypeName(JsonElement value) {
  using Type = simdjson::dom::element_type;
  switch (value.type()) {
    case Type::ARRAY:
      return "an array";
    case Type::OBJECT:
      return "an object";
    case Type::INT64:
    case Type::UINT64:
      return "an integer";
    case Type::DOUBLE:
      return "a number";
    case Type::STRING:
      return "a string";
    case Type::BOOL:
      return "a boolean";
    case Type::NULL_VALUE:
      return "null";
  }
  return "something else";
}

std::string ParseProblem(simdjson::error_code code, const DecodeLimits& limits) {
  switch (code) {
    case simdjson::UTF8_ERROR:
      return "The request body is not valid UTF-8.";
    case simdjson::EMPTY:
      return "The request body is empty; it must be a JSON object.";
    case simdjson::DEPTH_ERROR:
      return fmt::format("The request body is nested too deep: at most {} levels are read.",
                         limits.json_depth_max);
    case simdjson::CAPACITY:
    case simdjson::MEMALLOC:
      return "The request body is too large to be parsed.";
    default:
      return fmt::format("The request body is not valid JSON: {}", simdjson::error_message(code));
  }
}

Error TwiceError(const std::string& path) {
  return MakeError(ErrorCode::kInvalidArgument, kSource,
                   fmt::format("{} is given more than once.", path), path);
}

}  // namespace

Result<JsonObject> ParseBody(std::string_view body, const DecodeLimits& limits,
                             simdjson::dom::parser& parser) {
  JsonElement root;
  simdjson::error_code code = parser.allocate(std::max<size_t>(body.size(), 64),
                                              static_cast<size_t>(limits.json_depth_max));
  if (code == simdjson::SUCCESS) code = parser.parse(body.data(), body.size(), true).get(root);
  if (code != simdjson::SUCCESS) {
    return MakeError(ErrorCode::kInvalidArgument, kSource, ParseProblem(code, limits));
  }
  JsonObject object;
  if (root.get(object) != simdjson::SUCCESS) {
    return MakeError(
        ErrorCode::kInvalidArgument, kSource,
        fmt::format("The request body must be a JSON object, but got {}.", TypeName(root)));
  }
  return object;
}

Result<void> ReadFields(JsonObject object, const std::string& path,
                        std::span<const FieldSpec> fields, DecodeState& state) {
  std::vector<bool> seen(fields.size(), false);
  for (const simdjson::dom::key_value_pair field : object) {
    const auto spec = std::find_if(fields.begin(), fields.end(), [&](const FieldSpec& candidate) {
      return candidate.name == field.key;
    });
    if (spec == fields.end()) continue;
    const std::string field_path =
        path.empty() ? std::string(spec->name) : fmt::format("{}.{}", path, spec->name);
    const size_t index = static_cast<size_t>(spec - fields.begin());
    if (seen[index]) {
      return TwiceError(field_path);
    }
    seen[index] = true;
    if (field.value.is_null()) continue;
    KVGATE_TRY_VOID(spec->read(field.value, field_path, state));
  }
  return {};
}

Result<Fields> Fields::Read(JsonElement value, std::string path,
                            std::initializer_list<std::string_view> names) {
  KVGATE_TRY(const JsonObject object, ReadObject(value, path));
  return Read(object, std::move(path), names);
}

Result<Fields> Fields::Read(JsonObject object, std::string path,
                            std::initializer_list<std::string_view> names) {
  Fields fields;
  fields.path_ = std::move(path);
  for (const std::string_view name : names) fields.fields_.push_back({.name = name, .value = {}});
  for (const simdjson::dom::key_value_pair field : object) {
    const auto known =
        std::find_if(fields.fields_.begin(), fields.fields_.end(),
                     [&](const Field& candidate) { return candidate.name == field.key; });
    if (known == fields.fields_.end()) continue;
    if (known->seen) return TwiceError(fields.Path(known->name));
    known->seen = true;
    if (!field.value.is_null()) known->value = field.value;
  }
  return fields;
}

const JsonElement* Fields::Find(std::string_view name) const {
  for (const Field& field : fields_) {
    if (field.name == name) return field.value ? &*field.value : nullptr;
  }
  KVGATE_CHECK(false, "a field that nobody asked for");
  return nullptr;
}

Result<std::string> Fields::String(std::string_view name) const {
  const JsonElement* value = Find(name);
  if (value == nullptr) return MissingError(Path(name));
  return ReadString(*value, Path(name));
}

Result<std::string> Fields::StringOrEmpty(std::string_view name) const {
  const JsonElement* value = Find(name);
  if (value == nullptr) return std::string();
  return ReadString(*value, Path(name));
}

Result<bool> Fields::BoolOr(std::string_view name, bool fallback) const {
  const JsonElement* value = Find(name);
  if (value == nullptr) return fallback;
  return ReadBool(*value, Path(name));
}

Error TypeError(const std::string& path, std::string_view expected, JsonElement value) {
  return MakeError(ErrorCode::kInvalidArgument, kSource,
                   fmt::format("Invalid type for '{}': expected {}, but got {} instead.", path,
                               expected, TypeName(value)),
                   path);
}

Error RangeError(const std::string& path, std::string_view rule) {
  return MakeError(ErrorCode::kInvalidArgument, kSource,
                   fmt::format("Invalid value for '{}': it {}.", path, rule), path);
}

Error UnsupportedError(const std::string& path, std::string_view what) {
  return MakeError(
      ErrorCode::kUnsupported, kSource,
      fmt::format("Unsupported value for '{}': {} not supported by the local engine yet.", path,
                  what),
      path);
}

Error MissingError(const std::string& path) {
  return MakeError(ErrorCode::kInvalidArgument, kSource,
                   fmt::format("Missing required parameter: '{}'.", path), path);
}

Result<std::string> ReadString(JsonElement value, const std::string& path) {
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) return TypeError(path, "a string", value);
  return std::string(text);
}

Result<bool> ReadBool(JsonElement value, const std::string& path) {
  bool flag = false;
  if (value.get(flag) != simdjson::SUCCESS) return TypeError(path, "a boolean", value);
  return flag;
}

Result<JsonArray> ReadArray(JsonElement value, const std::string& path) {
  JsonArray array;
  if (value.get(array) != simdjson::SUCCESS) return TypeError(path, "an array", value);
  return array;
}

Result<JsonObject> ReadObject(JsonElement value, const std::string& path) {
  JsonObject object;
  if (value.get(object) != simdjson::SUCCESS) return TypeError(path, "an object", value);
  return object;
}

Result<int64_t> ReadInteger(JsonElement value, const std::string& path, IntegerRange range) {
  const auto out_of_range = [&] {
    return range.max == std::numeric_limits<int64_t>::max()
               ? RangeError(path, fmt::format("must be at least {}", range.min))
               : RangeError(path, fmt::format("must be between {} and {}", range.min, range.max));
  };
  int64_t number = 0;
  if (value.get(number) != simdjson::SUCCESS) {
    if (value.is<uint64_t>()) return out_of_range();
    double fraction = 0;
    if (value.get(fraction) != simdjson::SUCCESS || fraction != std::floor(fraction)) {
      return TypeError(path, "an integer", value);
    }
    // Doubles beyond 2^53 are not exact, so a caller cannot mean them as integers.
    if (std::abs(fraction) > 9007199254740992.0) return out_of_range();
    number = static_cast<int64_t>(fraction);
  }
  if (number < range.min || number > range.max) return out_of_range();
  return number;
}

Result<double> ReadNumber(JsonElement value, const std::string& path, NumberRange range) {
  double number = 0;
  if (value.get(number) != simdjson::SUCCESS) return TypeError(path, "a number", value);
  if (!(number >= range.min && number <= range.max)) {
    return RangeError(path, fmt::format("must be between {} and {}", range.min, range.max));
  }
  return number;
}

std::string IndexPath(const std::string& path, size_t index) {
  return fmt::format("{}[{}]", path, index);
}

}  // namespace kvgate::dialect::form
