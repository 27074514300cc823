// SchemaValidator checks values against a JSON Schema. It is written from the specification and
// independent of grammars, and judges the texts of the compiler. It knows only the keywords of
// random_schema.h.
#pragma once

#include <cmath>
#include <regex>
#include <string>

#include <nlohmann/json.hpp>

namespace kvgate::grammar {

using PlainJson = nlohmann::json;

class SchemaValidator {
 public:
  explicit SchemaValidator(PlainJson root) : root_(std::move(root)) {}

  // Returns "" if the value is valid, else why not.
  std::string Check(const PlainJson& value) const { return Check(root_, value); }

 private:
  static bool HasType(const PlainJson& value, const std::string& type) {
    if (type == "integer") {
      return value.is_number() && value.get<double>() == std::floor(value.get<double>());
    }
    if (type == "number") return value.is_number();
    if (type == "string") return value.is_string();
    if (type == "array") return value.is_array();
    if (type == "object") return value.is_object();
    if (type == "boolean") return value.is_boolean();
    return value.is_null();
  }

  static size_t Length(const std::string& text) {
    size_t length = 0;
    for (const char byte : text) length += (byte & 0xC0) != 0x80 ? 1 : 0;
    return length;
  }

  std::string Check(const PlainJson& schema, const PlainJson& value) const {
    if (schema.is_boolean()) return schema.get<bool>() ? "" : "false";
    for (const auto& [keyword, wanted] : schema.items()) {
      const std::string problem = CheckKeyword(schema, keyword, wanted, value);
      if (!problem.empty()) return problem;
    }
    return "";
  }

  std::string CheckKeyword(const PlainJson& schema, const std::string& keyword,
                           const PlainJson& wanted, const PlainJson& value) const {
    bool ok = true;
    if (keyword == "type") {
      ok = false;
      for (const PlainJson& type : wanted.is_array() ? wanted : PlainJson::array({wanted})) {
        ok = ok || HasType(value, type.get<std::string>());
      }
    } else if (keyword == "const") {
      ok = value == wanted;
    } else if (keyword == "enum") {
      ok = std::find(wanted.begin(), wanted.end(), value) != wanted.end();
    } else if (keyword == "$ref") {
      const auto pointer = wanted.get<std::string>().substr(1);
      return Check(root_.at(PlainJson::json_pointer(pointer)), value);
    } else if (keyword == "anyOf" || keyword == "oneOf" || keyword == "allOf") {
      size_t count = 0;
      for (const PlainJson& part : wanted) count += Check(part, value).empty() ? 1 : 0;
      ok = keyword == "anyOf"   ? count > 0
           : keyword == "oneOf" ? count == 1
                                : count == wanted.size();
    } else if (keyword == "not") {
      ok = !Check(wanted, value).empty();
    } else if (value.is_number()) {
      ok = CheckNumber(keyword, wanted, value.get<double>());
    } else if (value.is_string()) {
      ok = CheckString(keyword, wanted, value.get<std::string>());
    } else if (value.is_array()) {
      return CheckArray(schema, keyword, wanted, value);
    } else if (value.is_object()) {
      return CheckObject(schema, keyword, wanted, value);
    }
    return ok ? "" : keyword + " " + wanted.dump() + " of " + value.dump();
  }

  static bool CheckNumber(const std::string& keyword, const PlainJson& wanted, double value) {
    if (keyword == "minimum") return value >= wanted.get<double>();
    if (keyword == "maximum") return value <= wanted.get<double>();
    if (keyword == "exclusiveMinimum") return value > wanted.get<double>();
    if (keyword == "exclusiveMaximum") return value < wanted.get<double>();
    if (keyword == "multipleOf") return std::fmod(value, wanted.get<double>()) == 0;
    return true;
  }

  static bool CheckString(const std::string& keyword, const PlainJson& wanted,
                          const std::string& value) {
    if (keyword == "minLength") return Length(value) >= wanted.get<size_t>();
    if (keyword == "maxLength") return Length(value) <= wanted.get<size_t>();
    if (keyword == "pattern")
      return std::regex_search(value, std::regex(wanted.get<std::string>()));
    return true;
  }

  std::string CheckArray(const PlainJson& schema, const std::string& keyword,
                         const PlainJson& wanted, const PlainJson& value) const {
    if (keyword == "minItems") return value.size() >= wanted.get<size_t>() ? "" : "minItems";
    if (keyword == "uniqueItems" && wanted == true) {
      for (size_t i = 0; i < value.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
          if (value.at(i) == value.at(j)) return "uniqueItems";
        }
      }
    }
    if (keyword == "maxItems") return value.size() <= wanted.get<size_t>() ? "" : "maxItems";
    const size_t prefix = schema.contains("prefixItems") ? schema.at("prefixItems").size() : 0;
    for (size_t i = 0; i < value.size(); ++i) {
      std::string problem;
      if (keyword == "prefixItems" && i < prefix) problem = Check(wanted.at(i), value.at(i));
      if (keyword == "items" && i >= prefix) problem = Check(wanted, value.at(i));
      if (!problem.empty()) return problem;
    }
    return "";
  }

  std::string CheckObject(const PlainJson& schema, const std::string& keyword,
                          const PlainJson& wanted, const PlainJson& value) const {
    if (keyword == "required") {
      for (const PlainJson& name : wanted) {
        if (!value.contains(name.get<std::string>())) return "required " + name.dump();
      }
    }
    if (keyword == "maxProperties") return value.size() <= wanted.get<size_t>() ? "" : keyword;
    if (keyword == "minProperties") return value.size() >= wanted.get<size_t>() ? "" : keyword;
    for (const auto& [name, item] : value.items()) {
      bool declared = schema.contains("properties") && schema.at("properties").contains(name);
      std::string problem;
      if (schema.contains("patternProperties")) {
        for (const auto& [pattern, part] : schema.at("patternProperties").items()) {
          if (!std::regex_search(name, std::regex(pattern))) continue;
          declared = declared || keyword == "additionalProperties";
          if (keyword == "patternProperties") problem += Check(part, item);
        }
      }
      if (keyword == "propertyNames") problem = Check(wanted, PlainJson(name));
      if (keyword == "properties" && declared) problem = Check(wanted.at(name), item);
      if (keyword == "additionalProperties" && !declared) problem = Check(wanted, item);
      if (!problem.empty()) return name + ": " + problem;
    }
    return "";
  }

  const PlainJson root_;
};

}  // namespace kvgate::grammar
