// SchemaCompiler: objects and arrays.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/text/grammar/schema/schema_compiler.h"

namespace kvgate::grammar::schema {

using rules::ExprId;
using rules::kUnbounded;
using rules::RepeatCount;
using rules::RuleId;

namespace {

constexpr uint64_t kPropertySteps = 30;

bool DeclaresProperties(const Json& schema) {
  return schema.contains("properties") || schema.contains("patternProperties");
}

// Returns the keyword for the first items: "prefixItems", or "items" as an array in older drafts;
// null if none.
const char* PrefixKeyword(const Json& schema) {
  if (schema.contains("prefixItems")) return "prefixItems";
  return schema.contains("items") && schema.at("items").is_array() ? "items" : nullptr;
}

// Returns the keyword for the items after the prefix; null if none.
const char* RestKeyword(const Json& schema) {
  const char* const prefix = PrefixKeyword(schema);
  const bool is_old = prefix != nullptr && std::string_view(prefix) == "items";
  const char* const keyword = is_old ? "additionalItems" : "items";
  return schema.contains(keyword) ? keyword : nullptr;
}

}  // namespace

// --- objects ----------------------------------------------------------------------------------

// The value must meet every schema that declares the name, and additionalProperties of those that
// do not.
Result<RuleId> SchemaCompiler::PropertyValue(const Conjunction& conjunction, const NameRules& rules,
                                             const std::string& name) {
  KVGATE_TRY_VOID(Charge(conjunction, kPropertySteps * (conjunction.elements.size() + 1) +
                                          rules.patterns.size() * name.size()));
  KVGATE_TRY(const bool accepted, AcceptsName(rules.names, name));
  std::vector<const Json*> schemas;
  for (const Element& element : conjunction.elements) {
    const Json& schema = *element.schema;
    bool is_declared = false;
    if (schema.contains("properties") && schema.at("properties").contains(name)) {
      KVGATE_TRY(const Json* value, document_.Child(schema, "properties", name));
      schemas.push_back(value);
      is_declared = true;
    }
    for (const NamePattern& pattern : rules.patterns) {
      if (pattern.element != &element || !pattern.dfa->Takes(name)) continue;
      KVGATE_TRY(const Json* value, document_.Child(schema, "patternProperties", pattern.text));
      schemas.push_back(value);
      is_declared = true;
    }
    if (!is_declared && schema.contains("additionalProperties")) {
      KVGATE_TRY(const Json* value, document_.Child(schema, "additionalProperties"));
      schemas.push_back(value);
    }
  }
  KVGATE_TRY(Conjunction joined, Join(schemas));
  joined.impossible |= !accepted;
  return RuleOf(std::move(joined));
}

Result<std::vector<SchemaCompiler::Property>> SchemaCompiler::Properties(
    const Conjunction& conjunction) {
  NameRules rules;
  KVGATE_TRY(rules.patterns, NamePatterns(conjunction));
  KVGATE_TRY(rules.names, NamesOf(conjunction));
  std::vector<Property> properties;
  std::map<std::string, size_t> indices;
  const auto add = [&](const std::string& name, bool required) -> Result<void> {
    const auto [at, is_new] = indices.try_emplace(name, properties.size());
    if (is_new) {
      KVGATE_TRY(const RuleId value, PropertyValue(conjunction, rules, name));
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

// If properties are declared and additionalProperties is absent, no other properties are written.
Result<SchemaCompiler::Rest> SchemaCompiler::AdditionalProperties(const Conjunction& conjunction) {
  Rest rest;
  bool declared = false;
  bool forbidden = false;
  for (const Element& element : conjunction.elements) {
    const Json& schema = *element.schema;
    declared |= DeclaresProperties(schema);
    if (!schema.contains("additionalProperties")) continue;
    KVGATE_TRY(const Json* value, document_.Child(schema, "additionalProperties"));
    forbidden |= *value == false;
    rest.open = true;
    rest.schemas.push_back(value);
  }
  rest.open = !forbidden && (rest.open || !declared);
  return rest;
}

// Additional names may repeat, so at most one of them counts towards minProperties.
Result<void> SchemaCompiler::CheckPropertyCounts(const Conjunction& conjunction, RepeatCount count,
                                                 size_t num_properties, bool open) const {
  constexpr size_t kCountedMax = 200;
  const bool too_many = count.min > num_properties + (open ? 1 : 0);
  if (!too_many && num_properties <= kCountedMax) return {};
  for (const char* const keyword : {"minProperties", "maxProperties"}) {
    for (const Element& element : conjunction.elements) {
      if (!element.schema->contains(keyword)) continue;
      return ErrorAt(element, keyword, ErrorCode::kUnsupported,
                     fmt::format("is only supported up to the number of declared properties (and "
                                 "1, where others may be there), and beside {} of them at most",
                                 kCountedMax));
    }
  }
  return {};
}

Result<ExprId> SchemaCompiler::Object(const Conjunction& conjunction) {
  KVGATE_TRY(const std::vector<Property> properties, Properties(conjunction));
  KVGATE_TRY(const Rest rest, AdditionalProperties(conjunction));
  KVGATE_TRY(const std::optional<ExprId> more, OtherPairs(conjunction, properties, rest));
  KVGATE_TRY(const RepeatCount count, Lengths(conjunction, "minProperties", "maxProperties"));
  if (count.min > count.max) return grammar_.Nothing();
  const auto num_required = static_cast<size_t>(
      std::count_if(properties.begin(), properties.end(),
                    [](const Property& property) { return property.required; }));
  const bool counts = count.min > num_required ||
                      (count.max != kUnbounded && (more || count.max < properties.size()));
  if (counts) {
    KVGATE_TRY_VOID(CheckPropertyCounts(conjunction, count, properties.size(), more.has_value()));
  }
  return grammar_.Sequence(
      {grammar_.Literal("{"),
       counts ? CountedList(properties, more, count) : PropertyList(properties, more),
       grammar_.Literal("}")});
}

// Returns a list of `count` undeclared properties, to follow the declared ones.
ExprId SchemaCompiler::ShortList(std::optional<ExprId> more, RepeatCount count, bool is_first) {
  if (!more) return count.min == 0 ? grammar_.Empty() : grammar_.Nothing();
  if (count.min > 1) return grammar_.Nothing();
  return is_first ? parts_.List(*more, count)
                  : grammar_.Repeat(grammar_.Sequence({parts_.Comma(), *more}), count);
}

// The same as PropertyList, with one rule for each number of properties written so far.
ExprId SchemaCompiler::CountedList(std::span<const Property> properties, std::optional<ExprId> more,
                                   RepeatCount count) {
  const size_t written_max = std::min<size_t>(properties.size(), count.max);
  std::vector<ExprId> behind;  // by the number written
  for (uint32_t written = 0; written <= written_max; ++written) {
    behind.push_back(ShortList(more,
                               {.min = count.min > written ? count.min - written : 0,
                                .max = count.max == kUnbounded ? kUnbounded : count.max - written},
                               written == 0));
  }
  for (size_t i = properties.size(); i-- > 0 && !grammar_.is_full();) {
    const Property& property = properties[i];
    std::vector<ExprId> before;
    for (size_t written = 0; written <= std::min(i, written_max); ++written) {
      std::vector<ExprId> alternatives;
      if (written < written_max) {
        std::vector<ExprId> pair;
        if (written > 0) pair.push_back(parts_.Comma());
        pair.insert(pair.end(), {parts_.Name(property.name), parts_.Colon(),
                                 grammar_.Rule(property.value), behind[written + 1]});
        alternatives.push_back(grammar_.Sequence(pair));
      }
      if (!property.required) alternatives.push_back(behind[written]);
      const RuleId rule = grammar_.AddRule("properties");
      grammar_.SetBody(rule, grammar_.Choice(alternatives));
      before.push_back(grammar_.Rule(rule));
    }
    behind = std::move(before);
  }
  return behind.front();
}

// Builds from the last property to the first two continuations: `first` if no property is written
// yet, and `later` if one is, so that a comma is due.
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
    const ExprId pair = grammar_.Sequence(
        {parts_.Name(property.name), parts_.Colon(), grammar_.Rule(property.value), later});
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

// After a prefix, if other items are not mentioned, no others are written.
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
  const auto unique = std::find_if(
      conjunction.elements.begin(), conjunction.elements.end(),
      [](const Element& element) { return element.schema->value("uniqueItems", false); });
  if (unique != conjunction.elements.end() && count.max > 1 && !limits_.is_relaxed) {
    if (prefix == 0) return DistinctItems(conjunction, *unique, count);
    return ErrorAt(*unique, "uniqueItems", ErrorCode::kUnsupported,
                   "is not supported beside schemas of single items");
  }
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

// Returns the values of a schema that allows only few, or nothing if it may allow more.
Result<std::optional<std::vector<Json>>> SchemaCompiler::FewValues(
    const Conjunction& conjunction) const {
  using Values = std::optional<std::vector<Json>>;
  if (conjunction.impossible) return Values(std::vector<Json>());
  for (const Element& element : conjunction.elements) {
    if (element.schema->contains("anyOf") || element.schema->contains("oneOf")) return Values();
  }
  KVGATE_TRY(const unsigned types, TypesOf(conjunction));
  if (HasValues(conjunction)) {
    KVGATE_TRY(const std::vector<const Json*> named, NamedValues(conjunction, types));
    std::vector<Json> values;
    for (const Json* const value : named) values.push_back(*value);
    return Values(std::move(values));
  }
  if ((types & ~static_cast<unsigned>(kBoolean | kNull)) != 0) return Values();
  std::vector<Json> values;
  if (types & kBoolean) values = {false, true};
  if (types & kNull) values.emplace_back(nullptr);
  return Values(std::move(values));
}

// All items are different. A grammar can only track values that the schema lists, so of an item
// schema with unlisted values only one item is allowed.
Result<ExprId> SchemaCompiler::DistinctItems(const Conjunction& conjunction, const Element& owner,
                                             RepeatCount count) {
  std::vector<const Json*> schemas;
  for (const Element& element : conjunction.elements) {
    if (const char* const rest = RestKeyword(*element.schema)) {
      KVGATE_TRY(const Json* item, document_.Child(*element.schema, rest));
      schemas.push_back(item);
    }
  }
  KVGATE_TRY(Conjunction item, Join(schemas));
  KVGATE_TRY(const std::optional<std::vector<Json>> values, FewValues(item));
  const ExprId open = grammar_.Literal("[");
  const ExprId close = grammar_.Literal("]");
  if (!values) {
    if (count.min > 1) {
      return ErrorAt(owner, "uniqueItems", ErrorCode::kUnsupported,
                     "is only supported of values that are named (enum, const, booleans), or with "
                     "minItems of at most 1");
    }
    count.max = 1;
    return grammar_.Sequence({open, parts_.List(grammar_.Rule(RuleOf(item)), count), close});
  }
  constexpr size_t kAnyOrderMax = 7;  // there is a rule for each subset of the values
  std::vector<ExprId> texts;
  for (const Json& value : *values) texts.push_back(parts_.Value(value.dump()));
  if (texts.size() <= kAnyOrderMax) {
    return grammar_.Sequence({open, InAnyOrder(texts, count), close});
  }
  return grammar_.Sequence({open, InOrder(texts, count), close});
}

// Writes the values in the schema's order: for each value, the continuations by the number written
// before. Numbers are told apart only as far as the bounds require, so without a maximum this is
// linear.
ExprId SchemaCompiler::InOrder(std::span<const ExprId> values, RepeatCount count) {
  const bool bounded = count.max < values.size();
  const size_t counted = bounded ? count.max : std::max<size_t>(count.min, 1);
  const size_t written_max = std::min(values.size(), counted);
  std::vector<ExprId> behind;  // by the number written; the last: that many or more
  for (size_t written = 0; written <= written_max; ++written) {
    behind.push_back(written >= count.min ? grammar_.Empty() : grammar_.Nothing());
  }
  for (size_t i = values.size(); i-- > 0 && !grammar_.is_full();) {
    std::vector<ExprId> before;
    for (size_t written = 0; written <= std::min(i, written_max); ++written) {
      std::vector<ExprId> alternatives = {behind[written]};
      if (written < written_max || !bounded) {
        std::vector<ExprId> parts = {values[i], behind[std::min(written + 1, written_max)]};
        if (written > 0) parts.insert(parts.begin(), parts_.Comma());
        alternatives.push_back(grammar_.Sequence(parts));
      }
      const RuleId rule = grammar_.AddRule("items");
      grammar_.SetBody(rule, grammar_.Choice(alternatives));
      before.push_back(grammar_.Rule(rule));
    }
    behind = std::move(before);
  }
  return behind.front();
}

ExprId SchemaCompiler::InAnyOrder(std::span<const ExprId> values, RepeatCount count) {
  const uint32_t num_sets = 1u << values.size();
  std::vector<ExprId> behind(num_sets, ExprId{});  // by the set written so far, as bits
  for (uint32_t written = num_sets; written-- > 0;) {
    const auto num_written = static_cast<uint32_t>(std::popcount(written));
    std::vector<ExprId> alternatives;
    if (num_written >= count.min) alternatives.push_back(grammar_.Empty());
    for (uint32_t i = 0; i < values.size() && num_written < count.max; ++i) {
      if ((written >> i & 1) != 0) continue;
      std::vector<ExprId> parts = {values[i], behind[written | 1u << i]};
      if (written != 0) parts.insert(parts.begin(), parts_.Comma());
      alternatives.push_back(grammar_.Sequence(parts));
    }
    const RuleId rule = grammar_.AddRule("items");
    grammar_.SetBody(rule, grammar_.Choice(alternatives));
    behind[written] = grammar_.Rule(rule);
  }
  return behind.front();
}

}  // namespace kvgate::grammar::schema
