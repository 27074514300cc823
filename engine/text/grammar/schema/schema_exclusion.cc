#include "engine/text/grammar/schema/schema_exclusion.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/text/grammar/schema/value_set.h"

namespace kvgate::grammar::schema {
namespace {

constexpr int kDepthMax = 8;  // nesting of properties and references

// Returns the values that the schema lists, or nothing if it lists none.
std::optional<std::span<const Json>> NamedValues(const Json& schema) {
  if (schema.contains("const")) return std::span(&schema.at("const"), 1);
  if (!schema.contains("enum")) return std::nullopt;
  const auto& values = schema.at("enum").get_ref<const Json::array_t&>();
  return std::span(values);
}

unsigned TypesFor(const Json& schema, bool implied) {
  unsigned types = NamedTypes(schema).value_or(kAnyType);
  if (const auto values = NamedValues(schema)) {
    unsigned of_values = 0;
    for (const Json& value : *values) of_values |= TypeOf(value);
    types &= of_values;
  } else if (implied && !NamedTypes(schema) && TypesOfKeywords(schema) != 0) {
    types = TypesOfKeywords(schema);
  }
  return types;
}

// Returns the cost of examining a schema, without its subschemas.
uint64_t StepsOf(const Json& schema) {
  uint64_t steps = 10 + 2 * schema.size();
  for (const char* const keyword : {"enum", "required", "type"}) {
    const auto found = schema.find(keyword);
    if (found != schema.end() && found->is_array()) steps += 5 * found->size();
  }
  return steps;
}

bool Declares(const Json& schema, const std::string& name) {
  return schema.contains("properties") && schema.at("properties").contains(name);
}

bool ForbidsMore(const Json& schema) {
  return !schema.contains("patternProperties") && schema.contains("additionalProperties") &&
         schema.at("additionalProperties") == false;
}

// Returns true if our grammar of the schema writes only declared properties.
bool WritesOnlyDeclared(const Json& schema) {
  if (ForbidsMore(schema)) return true;
  return schema.contains("properties") && !schema.contains("patternProperties") &&
         !schema.contains("additionalProperties");
}

class Comparison {
 public:
  Comparison(SchemaDocument& document, rules::Budget& budget)
      : document_(document), budget_(budget) {}

  Result<bool> Excludes(const Json& written, const Json& read, bool alone, int depth) {
    if (written.is_boolean()) return !written.get<bool>();
    if (read.is_boolean()) return !read.get<bool>();
    if (depth > kDepthMax || !budget_.Charge(StepsOf(written) + StepsOf(read))) return false;
    KVGATE_TRY_VOID(document_.CheckKeywords(written));
    KVGATE_TRY_VOID(document_.CheckKeywords(read));
    KVGATE_TRY(const bool apart, PartsExclude(written, read, alone, depth));
    if (apart) return true;
    const unsigned types = TypesFor(written, alone);
    if ((types & TypesFor(read, false)) == 0) return true;
    if (ValuesApart(written, read)) return true;
    const bool objects = types == kObject;
    return objects ? PropertiesExclude(written, read, alone, depth) : Result<bool>(false);
  }

 private:
  // Follows references, allOf (one excluding part is enough) and choices (every part must exclude).
  Result<bool> PartsExclude(const Json& written, const Json& read, bool alone, int depth) {
    if (written.contains("$ref")) {
      KVGATE_TRY(const Json* target, document_.Resolve(written));
      const bool is_all = written.size() == 1;
      KVGATE_TRY(const bool apart, Excludes(*target, read, alone && is_all, depth + 1));
      if (apart) return true;
    }
    if (read.contains("$ref")) {
      KVGATE_TRY(const Json* target, document_.Resolve(read));
      KVGATE_TRY(const bool apart, Excludes(written, *target, alone, depth + 1));
      if (apart) return true;
    }
    for (const char* const keyword : {"allOf", "anyOf", "oneOf"}) {
      const bool all = std::string_view(keyword) != "allOf";
      if (written.contains(keyword)) {
        KVGATE_TRY(const bool apart, EachExcludes(written, keyword, all, [&](const Json& part) {
                     return Excludes(part, read, false, depth + 1);
                   }));
        if (apart) return true;
      }
      if (read.contains(keyword)) {
        KVGATE_TRY(const bool apart, EachExcludes(read, keyword, all, [&](const Json& part) {
                     return Excludes(written, part, alone, depth + 1);
                   }));
        if (apart) return true;
      }
    }
    return false;
  }

  template <typename Function>
  Result<bool> EachExcludes(const Json& schema, const char* keyword, bool all, Function excludes) {
    for (size_t i = 0; i < schema.at(keyword).size() && !budget_.is_spent(); ++i) {
      KVGATE_TRY(const Json* part, document_.Child(schema, keyword, i));
      KVGATE_TRY(const bool apart, excludes(*part));
      if (apart != all) return apart;
    }
    return all;
  }

  static bool ValuesApart(const Json& written, const Json& read) {
    const auto ours = NamedValues(written);
    const auto theirs = NamedValues(read);
    if (!ours || !theirs) return false;
    ValueSet known;
    for (const Json& value : *theirs) known.Insert(value);
    return std::none_of(ours->begin(), ours->end(),
                        [&](const Json& value) { return known.Contains(value); });
  }

  Result<bool> PropertiesExclude(const Json& written, const Json& read, bool alone, int depth) {
    if (read.contains("required") && alone && WritesOnlyDeclared(written)) {
      for (const Json& name : read.at("required")) {
        const auto& text = name.get_ref<const std::string&>();
        if (!Declares(written, text) && !RequiredBy(written).Contains(name)) return true;
      }
    }
    if (!written.contains("required")) return false;
    for (const Json& name : written.at("required")) {
      const auto& text = name.get_ref<const std::string&>();
      if (!Declares(read, text)) {
        if (ForbidsMore(read)) return true;
        continue;
      }
      if (!Declares(written, text)) continue;
      KVGATE_TRY(const Json* ours, document_.Child(written, "properties", text));
      KVGATE_TRY(const Json* theirs, document_.Child(read, "properties", text));
      KVGATE_TRY(const bool apart, Excludes(*ours, *theirs, alone, depth + 1));
      if (apart) return true;
    }
    return false;
  }

  // Returns the names in "required".
  const ValueSet& RequiredBy(const Json& schema) {
    const auto [at, is_new] = required_.try_emplace(&schema);
    if (is_new && schema.contains("required")) at->second = ValueSet(schema.at("required"));
    return at->second;
  }

  SchemaDocument& document_;
  rules::Budget& budget_;
  std::unordered_map<const Json*, ValueSet> required_;
};

}  // namespace

Result<bool> Excludes(SchemaDocument& document, const ExclusionQuestion& question,
                      rules::Budget& budget) {
  return Comparison(document, budget).Excludes(question.written, question.read, question.alone, 0);
}

}  // namespace kvgate::grammar::schema
