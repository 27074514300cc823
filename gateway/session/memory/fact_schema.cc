#include "gateway/session/memory/fact_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/utf8.h"
#include "gateway/session/memory/entry.h"

namespace kvgate::session::memory {

using transcript::Json;
using transcript::MemberOf;

namespace {

constexpr std::array<std::string_view, 7> kTypes = {"string", "number", "integer", "boolean",
                                                    "object", "array",  "null"};
constexpr std::array<std::string_view, 6> kBounds = {"minimum",   "maximum",  "minLength",
                                                     "maxLength", "minItems", "maxItems"};
constexpr std::array<std::string_view, 8> kDescribing = {
    "$schema", "$id", "title", "description", "default", "examples", "format", "$comment"};

template <typename List>
bool IsOneOf(std::string_view text, const List& list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

Error Wrong(const std::string& field, std::string_view why) {
  return MakeError(ErrorCode::kInvalidArgument, "session.memory",
                   fmt::format("Invalid value for '{}': {}", field, why), field);
}

bool IsType(const Json& type) {
  return type.is_string() && IsOneOf(type.get<std::string>(), kTypes);
}

Result<void> CheckType(const Json& type, const std::string& field) {
  const bool is_list =
      type.is_array() && !type.empty() && std::all_of(type.begin(), type.end(), IsType);
  if (IsType(type) || is_list) return {};
  return Wrong(field, "it is a type of JSON, or a list of them.");
}

Result<void> CheckSchema(const Json& schema, const std::string& field);

Result<void> CheckKeyword(const std::string& name, const Json& value, const std::string& field) {
  if (IsOneOf(name, kDescribing) || name == "const") return {};
  if (name == "type") return CheckType(value, field);
  if (name == "enum" || name == "required") {
    return value.is_array() ? Result<void>() : Wrong(field, "it is a list.");
  }
  if (IsOneOf(name, kBounds)) {
    return value.is_number() ? Result<void>() : Wrong(field, "it is a number.");
  }
  if (name == "items") return CheckSchema(value, field);
  if (name == "additionalProperties") {
    return value.is_boolean() ? Result<void>() : CheckSchema(value, field);
  }
  if (name != "properties") return Wrong(field, "no such keyword is checked here.");
  if (!value.is_object()) return Wrong(field, "it is an object.");
  for (const auto& [property, of] : value.items()) {
    KVGATE_TRY_VOID(CheckSchema(of, field + "." + property));
  }
  return {};
}

Result<void> CheckSchema(const Json& schema, const std::string& field) {
  if (!schema.is_object()) return Wrong(field, "it is an object.");
  for (const auto& [name, value] : schema.items()) {
    KVGATE_TRY_VOID(CheckKeyword(name, value, field + "." + name));
  }
  return {};
}

bool IsOfType(const Json& value, std::string_view type) {
  if (type == "string") return value.is_string();
  if (type == "number") return value.is_number();
  if (type == "integer") {
    return value.is_number_integer() ||
           (value.is_number() && std::floor(value.get<double>()) == value.get<double>());
  }
  if (type == "boolean") return value.is_boolean();
  if (type == "object") return value.is_object();
  return type == "array" ? value.is_array() : value.is_null();
}

bool IsOfTypes(const Json& value, const Json& type) {
  if (type.is_null()) return true;
  if (type.is_string()) return IsOfType(value, type.get<std::string>());
  return std::any_of(type.begin(), type.end(),
                     [&](const Json& one) { return IsOfType(value, one.get<std::string>()); });
}

// True if the number is between the bounds that the schema sets.
bool IsWithin(double number, const Json& schema, const char* least, const char* most) {
  const Json& min = MemberOf(schema, least);
  const Json& max = MemberOf(schema, most);
  return !(min.is_number() && number < min.get<double>()) &&
         !(max.is_number() && number > max.get<double>());
}

size_t NumCharacters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !IsUtf8Continuation(c); }));
}

bool Matches(const Json& value, const Json& schema);

bool ObjectMatches(const Json& value, const Json& schema) {
  for (const Json& name : MemberOf(schema, "required")) {
    if (!name.is_string() || !value.contains(name.get<std::string>())) return false;
  }
  const Json& properties = MemberOf(schema, "properties");
  const Json& more = MemberOf(schema, "additionalProperties");
  for (const auto& [name, member] : value.items()) {
    const Json& of = MemberOf(properties, name.c_str());
    if (of.is_object()) {
      if (!Matches(member, of)) return false;
    } else if (more.is_boolean() ? !more.get<bool>() : more.is_object() && !Matches(member, more)) {
      return false;
    }
  }
  return true;
}

bool Matches(const Json& value, const Json& schema) {
  if (!IsOfTypes(value, MemberOf(schema, "type"))) return false;
  const Json& choices = MemberOf(schema, "enum");
  if (choices.is_array() && std::find(choices.begin(), choices.end(), value) == choices.end()) {
    return false;
  }
  if (schema.contains("const") && schema["const"] != value) return false;
  if (value.is_number()) return IsWithin(value.get<double>(), schema, "minimum", "maximum");
  if (value.is_string()) {
    const auto length = static_cast<double>(NumCharacters(value.get_ref<const std::string&>()));
    return IsWithin(length, schema, "minLength", "maxLength");
  }
  if (value.is_object()) return ObjectMatches(value, schema);
  if (!value.is_array()) return true;
  const Json& items = MemberOf(schema, "items");
  return IsWithin(static_cast<double>(value.size()), schema, "minItems", "maxItems") &&
         (!items.is_object() || std::all_of(value.begin(), value.end(), [&](const Json& item) {
           return Matches(item, items);
         }));
}

}  // namespace

Result<FactSchema> FactSchema::Read(const Json& schema) {
  KVGATE_TRY_VOID(CheckSchema(schema, "schema"));
  const Json& properties = MemberOf(schema, "properties");
  if (!properties.is_object() || properties.empty()) {
    return Wrong("schema.properties", "each fact that is looked for has one.");
  }
  if (transcript::Dump(schema).size() > kSchemaBytesMax) {
    return Wrong("schema", fmt::format("it has at most {} bytes.", kSchemaBytesMax));
  }
  if (properties.size() > kEntriesMax) {
    return Wrong("schema.properties", fmt::format("a memory has at most {} facts.", kEntriesMax));
  }
  for (const auto& [name, of] : properties.items()) {
    if (const Result<void> checked = Check({.name = name, .value = "null"}); !checked) {
      return Wrong("schema.properties." + name.substr(0, kNameBytesMax), checked.error().detail);
    }
  }
  return FactSchema(schema);
}

bool FactSchema::Has(std::string_view name) const {
  return MemberOf(schema_, "properties").contains(std::string(name));
}

bool FactSchema::Allows(std::string_view name, const Json& value) const {
  return Matches(value, MemberOf(schema_, "properties")[std::string(name)]);
}

}  // namespace kvgate::session::memory
