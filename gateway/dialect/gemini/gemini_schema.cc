#include "gateway/dialect/gemini/gemini_schema.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>

#include "gateway/dialect/form/json_writer.h"
#include "gateway/dialect/translate/dialect_fields.h"

namespace kvgate::dialect::gemini {

using form::JsonWriter;
using translate::At;
using translate::RawJson;
using translate::RawObject;
using translate::Sub;
using translate::WrongShape;

namespace {

constexpr std::string_view kTypes[] = {"string", "number", "integer", "boolean",
                                       "array",  "object", "null"};
// Members whose value is one schema, a list of them, or schemas by name.
constexpr std::string_view kOne[] = {"items", "additionalProperties", "additional_properties"};
constexpr std::string_view kLists[] = {"anyOf", "any_of", "prefixItems", "prefix_items"};
constexpr std::string_view kMaps[] = {"properties", "defs", "$defs"};
constexpr std::string_view kDropped[] = {"nullable", "propertyOrdering", "property_ordering",
                                         "example"};
// Whole numbers, which 64-bit fields spell as strings.
constexpr std::string_view kCounts[] = {
    "minItems",  "maxItems",  "minLength",  "maxLength",  "minProperties",  "maxProperties",
    "min_items", "max_items", "min_length", "max_length", "min_properties", "max_properties"};

template <size_t N>
bool Has(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// "any_of" as "anyOf": the dialect takes both spellings.
std::string CamelCase(std::string_view name) {
  std::string camel;
  bool raises = false;
  for (const char c : name) {
    if (c == '_' && !camel.empty()) {
      raises = true;
      continue;
    }
    camel += raises ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    raises = false;
  }
  return camel;
}

std::string LowerCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

class Converter {
 public:
  explicit Converter(std::string& out) : json_(out) {}

  Result<void> Schema(const RawJson& value, const std::string& path) {
    if (!value.is_object()) return WrongShape(path, "must be an object");
    const RawObject schema(value);
    json_.BeginObject();
    for (const auto& [name, member] : schema.members()) {
      KVGATE_TRY_VOID(Member(schema, name, member, path));
    }
    json_.EndObject();
    return {};
  }

 private:
  Result<void> Member(const RawObject& schema, const std::string& name, const RawJson& value,
                      const std::string& path) {
    if (Has(kDropped, name) || !value) return {};
    const std::string at = Sub(path, name);
    if (name == "type") return Type(schema, value, at);
    if (Has(kOne, name) && value.is_object()) {
      json_.Key(CamelCase(name));
      return Schema(value, at);
    }
    if (Has(kLists, name)) return List(CamelCase(name), value, at);
    if (Has(kMaps, name)) return Map(name == "defs" ? "$defs" : name, value, at);
    if (Has(kCounts, name)) {
      const std::string text = value.is_string() ? value.String() : std::string(value.text());
      const bool is_count = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
        return c >= '0' && c <= '9';
      });
      if (!is_count) return WrongShape(at, "must be a whole number");
      json_.Key(CamelCase(name)).Raw(text);
      return {};
    }
    json_.Key(name == "ref" ? "$ref" : name).Raw(value.text());
    return {};
  }

  // A type by its name, or a list of such names, and null beside them if the value may be that.
  Result<void> Type(const RawObject& schema, const RawJson& value, const std::string& path) {
    std::vector<std::string> types;
    for (const RawJson& each : value.is_array() ? value.Elements() : std::vector<RawJson>{value}) {
      std::string type = LowerCase(each.String());
      if (type == "type_unspecified") continue;
      if (!Has(kTypes, type)) return WrongShape(path, "must be the name of a type");
      types.push_back(std::move(type));
    }
    if (types.empty()) return {};
    const bool nullable = schema["nullable"].is_true();
    if (nullable && std::find(types.begin(), types.end(), "null") == types.end()) {
      types.emplace_back("null");
    }
    json_.Key("type");
    if (types.size() == 1 && !value.is_array()) {
      json_.String(types.front());
      return {};
    }
    json_.BeginArray();
    for (const std::string& type : types) json_.String(type);
    json_.EndArray();
    return {};
  }

  Result<void> List(std::string_view name, const RawJson& value, const std::string& path) {
    if (!value.is_array()) return WrongShape(path, "must be an array");
    json_.Key(name).BeginArray();
    size_t index = 0;
    for (const RawJson& each : value.Elements()) {
      KVGATE_TRY_VOID(Schema(each, At(path, index++)));
    }
    json_.EndArray();
    return {};
  }

  Result<void> Map(std::string_view name, const RawJson& value, const std::string& path) {
    if (!value.is_object()) return WrongShape(path, "must be an object");
    json_.Key(name).BeginObject();
    for (const auto& [key, each] : value.Members()) {
      json_.Key(key);
      KVGATE_TRY_VOID(Schema(each, Sub(path, key)));
    }
    json_.EndObject();
    return {};
  }

  JsonWriter json_;
};

}  // namespace

Result<std::string> JsonSchemaOf(const RawJson& schema, const std::string& path) {
  std::string out;
  KVGATE_TRY_VOID(Converter(out).Schema(schema, path));
  return out;
}

}  // namespace kvgate::dialect::gemini
