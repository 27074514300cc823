// SchemaCompiler's objects and arrays.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/grammar/schema_compiler.h"

namespace kvgate::grammar {
namespace {

bool HasProperties(const Json& schema) {
  return schema.contains("properties") && !schema.at("properties").empty();
}

// The schemas of the first items: "prefixItems", or "items" as older drafts have it; null: none.
const char* PrefixKeyword(const Json& schema) {
  if (schema.contains("prefixItems")) return "prefixItems";
  return schema.contains("items") && schema.at("items").is_array() ? "items" : nullptr;
}

// The schema of the others; null: none.
const char* RestKeyword(const Json& schema) {
  const char* const prefix = PrefixKeyword(schema);
  const bool is_old = prefix != nullptr && std::string_view(prefix) == "items";
  const char* const keyword = is_old ? "additionalItems" : "items";
  return schema.contains(keyword) ? keyword : nullptr;
}

}  // namespace

// --- objects ----------------------------------------------------------------------------------

// A property's value meets what every schema says of it: by its name, or else of additional ones.
Result<RuleId> SchemaCompiler::PropertyValue(const Conjunction& conjunction,
                                             const std::string& name) {
  std::vector<const Json*> schemas;
  for (const Element& element : conjunction.elements) {
    const Json& schema = *element.schema;
    if (schema.contains("properties") && schema.at("properties").contains(name)) {
      KVGATE_TRY(const Json* value, document_.Child(schema, "properties", name));
      schemas.push_back(value);
    } else if (schema.contains("additionalProperties")) {
      KVGATE_TRY(const Json* value, document_.Child(schema, "additionalProperties"));
      schemas.push_back(value);
    }
  }
  KVGATE_TRY(Conjunction joined, Join(schemas));
  return RuleOf(std::move(joined));
}

Result<std::vector<SchemaCompiler::Property>> SchemaCompiler::Properties(
    const Conjunction& conjunction) {
  std::vector<Property> properties;
  std::map<std::string, size_t> indices;
  const auto add = [&](const std::string& name, bool required) -> Result<void> {
    const auto [at, is_new] = indices.try_emplace(name, properties.size());
    if (is_new) {
      KVGATE_TRY(const RuleId value, PropertyValue(conjunction, name));
      properties.push_back({.name = name, .value = value});
    }
    properties[at->second].required |= required;
    return {};
  };
  for (const Element& element : conjunction.elements) {
    if (!element.schema->contains("properties")) continue;
    for (const auto& [name, unused] : element.schema->at("properties").items()) {
      KVGATE_TRY_VOID(add(name, false));
    }
  }
  for (const Element& element : conjunction.elements) {
    if (!element.schema->contains("required")) continue;
    for (const Json& name : element.schema->at("required")) {
      KVGATE_TRY_VOID(add(name.get<std::string>(), true));
    }
  }
  return properties;
}

// Where properties are declared and nothing is said of others, we write no others.
Result<SchemaCompiler::Rest> SchemaCompiler::AdditionalProperties(const Conjunction& conjunction) {
  Rest rest;
  bool declared = false;
  bool forbidden = false;
  for (const Element& element : conjunction.elements) {
    const Json& schema = *element.schema;
    declared |= HasProperties(schema);
    if (!schema.contains("additionalProperties")) continue;
    KVGATE_TRY(const Json* value, document_.Child(schema, "additionalProperties"));
    forbidden |= *value == false;
    rest.open = true;
    rest.schemas.push_back(value);
  }
  rest.open = !forbidden && (rest.open || !declared);
  return rest;
}

Result<void> SchemaCompiler::CheckPropertyCounts(const Conjunction& conjunction,
                                                 size_t num_required, size_t num_all,
                                                 bool open) const {
  for (const Element& element : conjunction.elements) {
    const Json& schema = *element.schema;
    if (schema.contains("minProperties") &&
        schema.at("minProperties").get<double>() > static_cast<double>(num_required)) {
      return ErrorAt(element, "minProperties", ErrorCode::kUnsupported,
                     "is only supported up to the number of required properties (or 1, where none "
                     "is declared)");
    }
    if (schema.contains("maxProperties") &&
        (open || schema.at("maxProperties").get<double>() < static_cast<double>(num_all))) {
      return ErrorAt(element, "maxProperties", ErrorCode::kUnsupported,
                     "is only supported where no property is declared, or not less than the "
                     "number of those declared and no others may be there");
    }
  }
  return {};
}

// No property is declared. Names may repeat, so no more than one is sure to be there.
Result<ExprId> SchemaCompiler::OpenObject(const Conjunction& conjunction, ExprId pair) {
  KVGATE_TRY(const RepeatCount count, Lengths(conjunction, "minProperties", "maxProperties"));
  if (count.min > count.max) return grammar_.Nothing();
  if (count.min > 1) {
    KVGATE_TRY_VOID(CheckPropertyCounts(conjunction, 1, 0, false));
  }
  return grammar_.Sequence(
      {grammar_.Literal("{"), parts_.List(pair, count), grammar_.Literal("}")});
}

Result<ExprId> SchemaCompiler::Object(const Conjunction& conjunction) {
  KVGATE_TRY(const std::vector<Property> properties, Properties(conjunction));
  KVGATE_TRY(const Rest rest, AdditionalProperties(conjunction));
  std::optional<ExprId> more;
  if (rest.open) {
    KVGATE_TRY(Conjunction joined, Join(rest.schemas));
    std::vector<std::string> names;
    for (const Property& property : properties) names.push_back(property.name);
    more = grammar_.Sequence(
        {parts_.NameOtherThan(names), parts_.Colon(), grammar_.Rule(RuleOf(std::move(joined)))});
    if (properties.empty()) return OpenObject(conjunction, *more);
  }
  const auto num_required =
      std::count_if(properties.begin(), properties.end(),
                    [](const Property& property) { return property.required; });
  KVGATE_TRY_VOID(CheckPropertyCounts(conjunction, static_cast<size_t>(num_required),
                                      properties.size(), rest.open));
  return grammar_.Sequence(
      {grammar_.Literal("{"), PropertyList(properties, more), grammar_.Literal("}")});
}

// From the last to the first: what may follow where nothing is written yet, and where something is
// and a comma is due.
ExprId SchemaCompiler::PropertyList(std::span<const Property> properties,
                                    std::optional<ExprId> more) {
  const auto as_rule = [this](ExprId body) {
    const RuleId rule = grammar_.AddRule("properties");
    grammar_.SetBody(rule, body);
    return grammar_.Rule(rule);
  };
  ExprId first = more ? parts_.List(*more, {}) : grammar_.Empty();
  ExprId later =
      more ? grammar_.Repeat(grammar_.Sequence({parts_.Comma(), *more}), {}) : grammar_.Empty();
  for (size_t i = properties.size(); i-- > 0;) {
    const Property& property = properties[i];
    later = as_rule(later);
    first = as_rule(first);
    const ExprId pair = grammar_.Sequence({grammar_.Literal(QuoteJson(property.name)),
                                           parts_.Colon(), grammar_.Rule(property.value), later});
    const ExprId behind = grammar_.Sequence({parts_.Comma(), pair});
    first = property.required ? pair : grammar_.Choice({pair, first});
    later = property.required ? behind : grammar_.Choice({behind, later});
  }
  return first;
}

// --- arrays -----------------------------------------------------------------------------------

Result<size_t> SchemaCompiler::PrefixLength(const Conjunction& conjunction) const {
  size_t length = 0;
  for (const Element& element : conjunction.elements) {
    const char* const keyword = PrefixKeyword(*element.schema);
    if (keyword != nullptr) length = std::max(length, element.schema->at(keyword).size());
  }
  return length;
}

Result<RuleId> SchemaCompiler::ItemAt(const Conjunction& conjunction, size_t index) {
  std::vector<const Json*> schemas;
  for (const Element& element : conjunction.elements) {
    const Json& schema = *element.schema;
    const char* const prefix = PrefixKeyword(schema);
    if (prefix != nullptr && index < schema.at(prefix).size()) {
      KVGATE_TRY(const Json* item, document_.Child(schema, prefix, index));
      schemas.push_back(item);
    } else if (const char* const rest = RestKeyword(schema)) {
      KVGATE_TRY(const Json* item, document_.Child(schema, rest));
      schemas.push_back(item);
    }
  }
  KVGATE_TRY(Conjunction joined, Join(schemas));
  return RuleOf(std::move(joined));
}

// Behind a prefix, where nothing is said of other items, we write no others.
Result<bool> SchemaCompiler::IsClosedBehind(const Conjunction& conjunction, size_t prefix) const {
  bool said = false;
  for (const Element& element : conjunction.elements) {
    const char* const rest = RestKeyword(*element.schema);
    if (rest == nullptr) continue;
    if (element.schema->at(rest) == false) return true;
    said = true;
  }
  return prefix > 0 && !said;
}

Result<ExprId> SchemaCompiler::Array(const Conjunction& conjunction) {
  KVGATE_TRY(RepeatCount count, Lengths(conjunction, "minItems", "maxItems"));
  KVGATE_TRY(const size_t prefix, PrefixLength(conjunction));
  KVGATE_TRY(const bool closed, IsClosedBehind(conjunction, prefix));
  if (closed && count.min <= prefix) {
    count.max = std::min(count.max, static_cast<uint32_t>(prefix));
  }
  if (count.min > count.max) return grammar_.Nothing();
  KVGATE_TRY(const RuleId rest, ItemAt(conjunction, prefix));
  const auto in_brackets = [this](ExprId items) {
    return grammar_.Sequence({grammar_.Literal("["), items, grammar_.Literal("]")});
  };
  if (prefix == 0) return in_brackets(parts_.List(grammar_.Rule(rest), count));
  const auto num_prefix = static_cast<uint32_t>(prefix);
  ExprId items = grammar_.Empty();
  if (count.max > num_prefix) {
    items = grammar_.Repeat(grammar_.Sequence({parts_.Comma(), grammar_.Rule(rest)}),
                            {.min = count.min > num_prefix ? count.min - num_prefix : 0,
                             .max = count.max == kUnbounded ? kUnbounded : count.max - num_prefix});
  }
  for (uint32_t i = std::min(num_prefix, count.max); i-- > 0;) {
    KVGATE_TRY(const RuleId item, ItemAt(conjunction, i));
    const RuleId behind = grammar_.AddRule("items");
    grammar_.SetBody(behind, items);
    std::vector<ExprId> parts;
    if (i > 0) parts.push_back(parts_.Comma());
    parts.push_back(grammar_.Rule(item));
    parts.push_back(grammar_.Rule(behind));
    items = grammar_.Sequence(parts);
    if (i >= count.min) items = grammar_.Optional(items);
  }
  return in_brackets(items);
}

}  // namespace kvgate::grammar
