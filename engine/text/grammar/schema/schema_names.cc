// SchemaCompiler: property names: patternProperties, propertyNames, and undeclared names.
#include <algorithm>
#include <utility>

#include "engine/text/grammar/schema/schema_compiler.h"

namespace kvgate::grammar::schema {

using rules::ExprId;

namespace {

constexpr uint64_t kPatternByteSteps = 10;
constexpr size_t kPatternsMax = 4;  // every subset of the patterns is a case of its own

}  // namespace

Result<std::vector<SchemaCompiler::NamePattern>> SchemaCompiler::NamePatterns(
    const Conjunction& conjunction) const {
  std::vector<NamePattern> patterns;
  for (const Element& element : conjunction.elements) {
    if (!element.schema->contains("patternProperties")) continue;
    for (const auto& [text, unused] : element.schema->at("patternProperties").items()) {
      const auto failed = [&](const Error& error) {
        return ErrorAt(element, "patternProperties", error.code, error.detail);
      };
      if (patterns.size() == kPatternsMax) {
        return ErrorAt(element, "patternProperties", ErrorCode::kUnsupported,
                       "has more patterns than are supported");
      }
      KVGATE_TRY_VOID(Charge(conjunction, text.size() * kPatternByteSteps));
      Result<rules::Pattern> pattern = rules::ParsePattern(text, {});
      if (!pattern) return failed(pattern.error());
      auto known = name_dfas_.find(text);
      if (known == name_dfas_.end()) {
        const rules::TextCondition condition = {.pattern = *pattern};
        Result<rules::CharDfa> dfa = MakeKeptDfa({&condition, 1});
        if (!dfa) return failed(dfa.error());
        known = name_dfas_.emplace(text, std::move(*dfa)).first;
      }
      patterns.push_back({.element = &element,
                          .text = text,
                          .pattern = std::move(*pattern),
                          .dfa = &known->second});
    }
  }
  return patterns;
}

Result<std::optional<SchemaCompiler::Conjunction>> SchemaCompiler::NamesOf(
    const Conjunction& conjunction) {
  std::vector<const Json*> schemas;
  for (const Element& element : conjunction.elements) {
    if (!element.schema->contains("propertyNames")) continue;
    KVGATE_TRY(const Json* names, document_.Child(*element.schema, "propertyNames"));
    schemas.push_back(names);
  }
  if (schemas.empty()) return std::optional<Conjunction>();
  KVGATE_TRY(Conjunction names, Join(schemas));
  for (const Element& element : names.elements) {
    for (const char* const keyword : {"anyOf", "oneOf"}) {
      if (!element.schema->contains(keyword)) continue;
      return ErrorAt(element, keyword, ErrorCode::kUnsupported, "is not supported of names");
    }
  }
  KVGATE_TRY(const unsigned types, TypesOf(names));
  names.impossible |= (types & kString) == 0;
  return std::optional<Conjunction>(std::move(names));
}

Result<bool> SchemaCompiler::AcceptsName(const std::optional<Conjunction>& names,
                                         const std::string& name) {
  if (!names) return true;
  KVGATE_TRY_VOID(Charge(*names, names->elements.size() * kPatternByteSteps));
  bool accepted = !names->impossible;
  for (const Element& element : names->elements) {
    KVGATE_TRY(const bool accepts, Accepts(element, Json(name)));
    accepted = accepted && accepts;
  }
  return accepted;
}

Result<std::optional<ExprId>> SchemaCompiler::OtherPairs(const Conjunction& conjunction,
                                                         std::span<const Property> properties,
                                                         const Rest& rest) {
  using Pairs = std::optional<ExprId>;
  KVGATE_TRY(const std::vector<NamePattern> patterns, NamePatterns(conjunction));
  KVGATE_TRY(const std::optional<Conjunction> names, NamesOf(conjunction));
  if (names && names->impossible) return Pairs();
  if (patterns.empty() && !names) {
    if (!rest.open) return Pairs();
    KVGATE_TRY(Conjunction joined, Join(rest.schemas));
    std::vector<std::string> declared;
    for (const Property& property : properties) declared.push_back(property.name);
    return Pairs(grammar_.Sequence({parts_.NameOtherThan(declared), parts_.Colon(),
                                    grammar_.Rule(RuleOf(std::move(joined)))}));
  }
  std::vector<ExprId> alternatives;
  for (unsigned matched = rest.open ? 0 : 1; matched < 1u << patterns.size(); ++matched) {
    KVGATE_TRY(const ExprId pairs,
               PairsOfPatterns(conjunction, patterns, matched, properties, names));
    alternatives.push_back(pairs);
  }
  if (alternatives.empty()) return Pairs();
  return Pairs(grammar_.Choice(alternatives));
}

// Pairs whose names match exactly the patterns whose bits are set in `matched`.
Result<ExprId> SchemaCompiler::PairsOfPatterns(const Conjunction& conjunction,
                                               std::span<const NamePattern> patterns,
                                               unsigned matched,
                                               std::span<const Property> properties,
                                               const std::optional<Conjunction>& names) {
  std::vector<rules::TextCondition> conditions;
  rules::RepeatCount length;
  if (names) {
    if (HasValues(*names)) {
      std::vector<std::string> texts;
      KVGATE_TRY(const std::vector<const Json*> values, NamedValues(*names, kString));
      for (const Json* const value : values) texts.push_back(value->get<std::string>());
      conditions.push_back({.pattern = rules::PatternOfTexts(texts)});
    } else {
      KVGATE_TRY(conditions, TextConditions(*names));
      KVGATE_TRY(length, Lengths(*names, "minLength", "maxLength"));
    }
  }
  std::vector<std::string> declared;
  for (const Property& property : properties) declared.push_back(property.name);
  if (!declared.empty()) {
    conditions.push_back({.pattern = rules::PatternOfTexts(declared), .negated = true});
  }
  std::vector<const Json*> schemas;
  for (const Element& element : conjunction.elements) {
    bool is_matched = false;
    for (size_t i = 0; i < patterns.size(); ++i) {
      if (patterns[i].element != &element || (matched >> i & 1) == 0) continue;
      KVGATE_TRY(const Json* value,
                 document_.Child(*element.schema, "patternProperties", patterns[i].text));
      schemas.push_back(value);
      is_matched = true;
    }
    if (is_matched || !element.schema->contains("additionalProperties")) continue;
    KVGATE_TRY(const Json* value, document_.Child(*element.schema, "additionalProperties"));
    schemas.push_back(value);
  }
  for (size_t i = 0; i < patterns.size(); ++i) {
    conditions.push_back({.pattern = patterns[i].pattern, .negated = (matched >> i & 1) == 0});
  }
  KVGATE_TRY(Conjunction joined, Join(schemas));
  const Result<rules::CharDfa> dfa = MakeTextDfa(conditions);
  const Result<ExprId> name = !dfa ? Result<ExprId>(dfa.error())
                                   : rules::AddTexts(grammar_, parts_, *dfa, {.length = length});
  if (!name) {
    const auto owner = std::find_if(conjunction.elements.begin(), conjunction.elements.end(),
                                    [](const Element& element) {
                                      return element.schema->contains("patternProperties") ||
                                             element.schema->contains("propertyNames");
                                    });
    const bool by_pattern = owner->schema->contains("patternProperties");
    return ErrorAt(*owner, by_pattern ? "patternProperties" : "propertyNames", name.error().code,
                   name.error().detail);
  }
  const ExprId quote = grammar_.Literal("\"");
  return grammar_.Sequence(
      {quote, *name, quote, parts_.Colon(), grammar_.Rule(RuleOf(std::move(joined)))});
}

}  // namespace kvgate::grammar::schema
