#include "engine/text/grammar/schema/schema_document.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>
#include <vector>

namespace kvgate::grammar::schema {
namespace {

// The required form of a keyword's value.
enum class Form : uint8_t {
  kAny,
  kNote,  // annotation: its value is not checked
  kBool,
  kCount,
  kNumber,
  kText,
  kSchema,
  kSchemas,  // a non-empty array
  kSchemaMap,
  kNames,
  kValues,
  kTypes,
  kItems,  // a schema, or an array of schemas in older drafts
  kTrue,   // only true is supported
};

struct Keyword {
  std::string_view name;
  Form form;
  unsigned types = 0;  // types that the keyword constrains
};

constexpr std::array kKeywords = {
    Keyword{"$ref", Form::kText},
    Keyword{"$defs", Form::kNote},
    Keyword{"definitions", Form::kNote},
    Keyword{"$schema", Form::kNote},
    Keyword{"$id", Form::kNote},
    Keyword{"$comment", Form::kNote},
    Keyword{"title", Form::kNote},
    Keyword{"description", Form::kNote},
    Keyword{"default", Form::kNote},
    Keyword{"examples", Form::kNote},
    Keyword{"example", Form::kNote},
    Keyword{"deprecated", Form::kNote},
    Keyword{"readOnly", Form::kNote},
    Keyword{"writeOnly", Form::kNote},
    Keyword{"discriminator", Form::kNote},
    Keyword{"contentEncoding", Form::kNote},
    Keyword{"contentMediaType", Form::kNote},
    Keyword{"contentSchema", Form::kNote},
    Keyword{"id", Form::kNote},
    Keyword{"type", Form::kTypes},
    Keyword{"nullable", Form::kBool},
    Keyword{"enum", Form::kValues},
    Keyword{"const", Form::kAny},
    Keyword{"anyOf", Form::kSchemas},
    Keyword{"oneOf", Form::kSchemas},
    Keyword{"allOf", Form::kSchemas},
    Keyword{"not", Form::kSchema},
    Keyword{"properties", Form::kSchemaMap, kObject},
    Keyword{"required", Form::kNames, kObject},
    Keyword{"additionalProperties", Form::kSchema, kObject},
    Keyword{"propertyNames", Form::kSchema, kObject},
    Keyword{"patternProperties", Form::kSchemaMap, kObject},
    Keyword{"unevaluatedProperties", Form::kTrue, kObject},
    Keyword{"minProperties", Form::kCount, kObject},
    Keyword{"maxProperties", Form::kCount, kObject},
    Keyword{"items", Form::kItems, kArray},
    Keyword{"prefixItems", Form::kSchemas, kArray},
    Keyword{"additionalItems", Form::kSchema, kArray},
    Keyword{"minItems", Form::kCount, kArray},
    Keyword{"maxItems", Form::kCount, kArray},
    Keyword{"uniqueItems", Form::kBool, kArray},
    Keyword{"unevaluatedItems", Form::kTrue, kArray},
    Keyword{"minLength", Form::kCount, kString},
    Keyword{"maxLength", Form::kCount, kString},
    Keyword{"pattern", Form::kText, kString},
    Keyword{"format", Form::kText, kString},
    Keyword{"minimum", Form::kNumber, kInteger | kFraction},
    Keyword{"maximum", Form::kNumber, kInteger | kFraction},
    Keyword{"exclusiveMinimum", Form::kNumber, kInteger | kFraction},
    Keyword{"exclusiveMaximum", Form::kNumber, kInteger | kFraction},
    Keyword{"multipleOf", Form::kNumber, kInteger | kFraction},
};

const Keyword* FindKeyword(std::string_view name) {
  static const auto* const by_name = [] {
    auto* const map = new std::unordered_map<std::string_view, const Keyword*>;
    for (const Keyword& keyword : kKeywords) map->emplace(keyword.name, &keyword);
    return map;
  }();
  const auto known = by_name->find(name);
  return known == by_name->end() ? nullptr : known->second;
}

bool IsSchema(const Json& value) { return value.is_object() || value.is_boolean(); }

bool IsWhole(double number) { return number == std::floor(number); }

// 3.0 counts as an integer.
bool IsCount(const Json& value) {
  if (!value.is_number_float()) return value.is_number_unsigned();
  const double number = value.get<double>();
  return number >= 0 && number < 1e15 && IsWhole(number);
}

template <typename Predicate>
bool AllOf(const Json& value, Predicate predicate) {
  for (const auto& item : value) {
    if (!predicate(item)) return false;
  }
  return true;
}

unsigned TypeByName(const Json& name) {
  if (!name.is_string()) return 0;
  const auto& text = name.get_ref<const std::string&>();
  static constexpr std::pair<std::string_view, unsigned> kNames[] = {
      {"null", kNull},
      {"boolean", kBoolean},
      {"string", kString},
      {"integer", kInteger},
      {"number", kInteger | kFraction},
      {"array", kArray},
      {"object", kObject}};
  for (const auto& [known, type] : kNames) {
    if (known == text) return type;
  }
  return 0;
}

// Returns what the value must be, or "" if it is.
std::string_view Problem(Form form, const Json& value) {
  switch (form) {
    case Form::kAny:
    case Form::kNote:
      return "";
    case Form::kBool:
      return value.is_boolean() ? "" : "must be true or false";
    case Form::kCount:
      return IsCount(value) ? "" : "must be an integer of at least 0";
    case Form::kNumber:
      return value.is_number() ? "" : "must be a number";
    case Form::kText:
      return value.is_string() ? "" : "must be a string";
    case Form::kSchema:
      return IsSchema(value) ? "" : "must be a schema";
    case Form::kSchemas:
      return value.is_array() && !value.empty() && AllOf(value, IsSchema)
                 ? ""
                 : "must be an array of schemas that is not empty";
    case Form::kSchemaMap:
      return value.is_object() && AllOf(value, IsSchema) ? "" : "must be an object of schemas";
    case Form::kNames:
      return value.is_array() && AllOf(value, [](const Json& n) { return n.is_string(); })
                 ? ""
                 : "must be an array of strings";
    case Form::kValues:
      return value.is_array() && !value.empty() ? "" : "must be an array that is not empty";
    case Form::kTypes: {
      const auto is_type = [](const Json& name) { return TypeByName(name) != 0; };
      const bool is_list = value.is_array() && !value.empty() && AllOf(value, is_type);
      return is_list || is_type(value) ? "" : "must be the name of a JSON type or an array of them";
    }
    case Form::kItems:
      return IsSchema(value) || (value.is_array() && AllOf(value, IsSchema)) ? ""
                                                                             : "must be a schema";
    case Form::kTrue:
      return IsSchema(value) ? "" : "must be a schema";
  }
  return "";
}

// Decodes "~1" to a slash (JSON pointer) and "%2F" to a byte (URI).
std::optional<std::string> DecodePointerToken(std::string_view token) {
  std::string decoded;
  for (size_t i = 0; i < token.size(); ++i) {
    if (token[i] == '~') {
      const char next = i + 1 < token.size() ? token[++i] : '\0';
      if (next != '0' && next != '1') return std::nullopt;
      decoded += next == '0' ? '~' : '/';
    } else if (token[i] == '%') {
      unsigned value = 0;
      if (i + 2 >= token.size()) return std::nullopt;
      for (int j = 0; j < 2; ++j) {
        const char c = token[++i];
        const bool is_digit = c >= '0' && c <= '9';
        const char lower = static_cast<char>(c | 0x20);
        if (!is_digit && (lower < 'a' || lower > 'f')) return std::nullopt;
        value = value * 16 + static_cast<unsigned>(is_digit ? c - '0' : lower - 'a' + 10);
      }
      decoded += static_cast<char>(value);
    } else {
      decoded += token[i];
    }
  }
  return decoded;
}

const Json* Step(const Json& from, const std::string& token) {
  if (from.is_object()) {
    const auto at = from.find(token);
    return at == from.end() ? nullptr : &*at;
  }
  if (!from.is_array() || token.empty() || token.size() > 6 ||
      token.find_first_not_of("0123456789") != std::string::npos) {
    return nullptr;
  }
  const auto index = static_cast<size_t>(std::stoul(token));
  return index < from.size() ? &from[index] : nullptr;
}

std::string Join(std::string path, std::string_view name) {
  if (!path.empty()) path += '.';
  path += name;
  return path;
}

// Returns true if brackets are nested deeper than depth_max. It is checked before parsing, because
// the parser's callback would scan a whole array again for each object in it.
bool IsDeeperThan(std::string_view text, int depth_max) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
      continue;
    }
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') continue;
    if (c == ']' || c == '}') {
      --depth;
      continue;
    }
    if (depth > depth_max) return true;
    in_string = c == '"';
    if (c == '[' || c == '{') ++depth;
  }
  return false;
}

Error Refusal(ErrorCode code, std::string what, std::string field) {
  return MakeError(code, "grammar.schema", std::move(what), std::move(field));
}

}  // namespace

Result<SchemaDocument> SchemaDocument::Parse(std::string_view text, const SchemaLimits& limits) {
  if (text.size() > limits.bytes_max) {
    return Refusal(
        ErrorCode::kTooLarge,
        fmt::format("the schema has {} bytes; at most {} are read", text.size(), limits.bytes_max),
        "");
  }
  SchemaDocument document;
  document.is_relaxed_ = limits.is_relaxed;
  if (IsDeeperThan(text, limits.depth_max)) {
    return Refusal(ErrorCode::kTooLarge,
                   fmt::format("the schema is nested deeper than {} levels", limits.depth_max), "");
  }
  document.root_ = std::make_unique<Json>(Json::parse(text, nullptr, false));
  if (document.root_->is_discarded()) {
    return Refusal(ErrorCode::kInvalidArgument, "the schema is not JSON", "");
  }
  KVGATE_TRY_VOID(document.Enter(*document.root_, {}));
  return document;
}

Result<const Json*> SchemaDocument::Enter(const Json& part, Place place) {
  const bool is_schema = IsSchema(part);
  const auto at = places_.try_emplace(&part, std::move(place)).first;
  if (is_schema) return &part;
  Error error =
      Refusal(ErrorCode::kInvalidArgument, "a schema must be an object or a boolean", PathOf(part));
  places_.erase(at);
  return error;
}

std::string SchemaDocument::PathOf(const Json& part) const {
  std::vector<const Place*> places;
  for (const Json* at = &part; at != nullptr; at = places.back()->parent) {
    places.push_back(&places_.at(at));
  }
  std::string path;
  for (size_t i = places.size(); i-- > 0;) {
    path = Join(std::move(path), places[i]->step);
    if (places[i]->name != nullptr) path = Join(std::move(path), *places[i]->name);
  }
  return path;
}

std::string SchemaDocument::PathTo(const Json& schema, std::string_view keyword) const {
  return Join(PathOf(schema), keyword);
}

Result<const Json*> SchemaDocument::Child(const Json& schema, const std::string& keyword) {
  return Enter(schema.at(keyword), {.parent = &schema, .step = keyword});
}

Result<const Json*> SchemaDocument::Child(const Json& schema, const std::string& keyword,
                                          size_t index) {
  return Enter(schema.at(keyword).at(index),
               {.parent = &schema, .step = fmt::format("{}[{}]", keyword, index)});
}

Result<const Json*> SchemaDocument::Child(const Json& schema, const std::string& keyword,
                                          const std::string& name) {
  const auto member = schema.at(keyword).find(name);
  return Enter(*member, {.parent = &schema, .name = &member.key(), .step = keyword});
}

Result<const Json*> SchemaDocument::Resolve(const Json& schema) {
  const auto& reference = schema.at("$ref").get_ref<const std::string&>();
  if (reference != "#" && !reference.starts_with("#/")) {
    return ErrorAt(schema, "$ref", ErrorCode::kUnsupported,
                   "points outside this schema (only \"#\" and \"#/...\" are supported)");
  }
  const Json* part = root_.get();
  std::string path;
  std::string_view rest = std::string_view(reference).substr(1);
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view raw = rest.substr(0, rest.find('/'));
    rest.remove_prefix(raw.size());
    const std::optional<std::string> token = DecodePointerToken(raw);
    part = token ? Step(*part, *token) : nullptr;
    if (part == nullptr) {
      return ErrorAt(schema, "$ref", ErrorCode::kInvalidArgument,
                     fmt::format("points to nothing: '{}'", reference.substr(0, 200)));
    }
    path = Join(std::move(path), *token);
  }
  return Enter(*part, {.step = std::move(path)});
}

Result<void> SchemaDocument::CheckKeywords(const Json& schema) const {
  if (!schema.is_object() || checked_.contains(&schema)) return {};
  for (const auto& [name, value] : schema.items()) {
    const Keyword* const keyword = FindKeyword(name);
    if (keyword == nullptr) {
      // "x-" keywords are notes of other tools. If relaxed, every unknown keyword is treated as a
      // note.
      if (is_relaxed_ || name.starts_with("x-")) continue;
      return ErrorAt(schema, name.substr(0, 100), ErrorCode::kUnsupported,
                     "is not a keyword that is supported");
    }
    const std::string_view problem = Problem(keyword->form, value);
    if (!problem.empty()) {
      return ErrorAt(schema, name, ErrorCode::kInvalidArgument, problem);
    }
    if (keyword->form == Form::kTrue && value != true && !is_relaxed_) {
      return ErrorAt(schema, name, ErrorCode::kUnsupported, "is only supported as true");
    }
  }
  checked_.insert(&schema);
  return {};
}

Error SchemaDocument::ErrorAt(const Json& schema, std::string_view keyword, ErrorCode code,
                              std::string_view what) const {
  return Refusal(code, keyword.empty() ? std::string(what) : fmt::format("'{}' {}", keyword, what),
                 keyword.empty() ? PathOf(schema) : PathTo(schema, keyword));
}

unsigned TypeOf(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return kNull;
    case Json::value_t::boolean:
      return kBoolean;
    case Json::value_t::string:
      return kString;
    case Json::value_t::array:
      return kArray;
    case Json::value_t::object:
      return kObject;
    case Json::value_t::number_float:
      return IsWhole(value.get<double>()) ? kInteger : kFraction;
    default:
      return kInteger;
  }
}

std::optional<unsigned> NamedTypes(const Json& schema) {
  const auto named = schema.find("type");
  if (named == schema.end()) return std::nullopt;
  unsigned types = TypeByName(*named);
  if (named->is_array()) {
    for (const Json& name : *named) types |= TypeByName(name);
  }
  const auto nullable = schema.find("nullable");
  if (nullable != schema.end() && nullable->get<bool>()) types |= kNull;
  return types;
}

bool IsNote(std::string_view keyword) {
  const Keyword* const known = FindKeyword(keyword);
  return known == nullptr || known->form == Form::kNote;
}

unsigned TypesOfKeywords(const Json& schema) {
  unsigned types = 0;
  for (const auto& [name, value] : schema.items()) {
    const Keyword* const keyword = FindKeyword(name);
    if (keyword != nullptr) types |= keyword->types;
  }
  return types;
}

}  // namespace kvgate::grammar::schema
