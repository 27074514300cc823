#include "engine/text/grammar/schema/json_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/text/grammar/schema/schema_compiler.h"
#include "engine/text/grammar/schema/schema_exclusion.h"

namespace kvgate::grammar::schema {

using rules::ExprId;
using rules::Grammar;
using rules::RuleId;

namespace {

// Budget steps, estimated from the time that the operations take.
constexpr uint64_t kRuleSteps = 50;
constexpr uint64_t kElementSteps = 20;
constexpr size_t kReferenceKeywordsMax = 8;
// Longest chain of pure references that is followed directly. A longer chain may be circular; then
// it becomes an element, and the cycle ends when that element recurs.
constexpr int kReferencesMax = 16;

}  // namespace

Result<ExprId> SchemaCompiler::Compile() {
  const Json* const root = &document_.root();
  KVGATE_TRY(Conjunction whole, Join({&root, 1}));
  const RuleId start = RuleOf(std::move(whole));
  KVGATE_TRY_VOID(CompilePending());
  return grammar_.Rule(start);
}

Result<void> SchemaCompiler::CompilePending() {
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (grammar_.num_rules() > limits_.rules_max) {
      return MakeError(ErrorCode::kTooLarge, "grammar.schema",
                       fmt::format("the schema needs more than {} rules", limits_.rules_max));
    }
    const auto [conjunction, rule] = pending_[i];  // a copy, because pending_ may grow
    KVGATE_TRY_VOID(Charge(conjunction, kRuleSteps));
    const Result<ExprId> body =
        BodyOf(conjunction, root_ && rule == *root_ ? unsigned{kObject} : unsigned{kAnyType});
    KVGATE_TRY_VOID(Charge(conjunction, 0));  // refused even if the limits are relaxed
    if (!body && !limits_.is_relaxed) return body.error();
    const bool is_root = root_ && rule == *root_;
    grammar_.SetBody(rule, body ? *body : is_root ? parts_.AnyObject() : parts_.AnyValue());
  }
  return {};
}

// The error names the schema part that exhausted the budget.
Result<void> SchemaCompiler::Charge(const Conjunction& conjunction, uint64_t steps) const {
  const bool has_steps = budget_.Charge(steps);
  if (has_steps && !grammar_.is_full()) return {};
  const Json& place =
      conjunction.elements.empty() ? document_.root() : *conjunction.elements.front().schema;
  const std::string what =
      has_steps
          ? fmt::format("the schema needs more than {} MiB of rules", Grammar::kBytesMax >> 20)
          : fmt::format("the schema takes more than {} steps to compile", budget_.steps_max());
  return document_.ErrorAt(place, "", ErrorCode::kTooLarge, what);
}

const SchemaCompiler::Facts& SchemaCompiler::FactsOf(const Json& schema) const {
  const auto [at, is_new] = facts_.try_emplace(&schema);
  if (is_new) {
    at->second.named_types = NamedTypes(schema);
    at->second.types_of_keywords = TypesOfKeywords(schema);
    const auto values = schema.find("enum");
    if (values != schema.end()) at->second.values = ValueSet(*values);
  }
  return at->second;
}

Result<SchemaCompiler::Conjunction> SchemaCompiler::Join(std::span<const Json* const> schemas) {
  Conjunction conjunction;
  for (const Json* const schema : schemas) KVGATE_TRY_VOID(Add(*schema, conjunction));
  return conjunction;
}

// Returns true if the schema has only a reference; it then equals its target and shares the
// target's rule.
bool SchemaCompiler::OnlyRefers(const Json& schema) const {
  if (!schema.is_object() || !schema.contains("$ref") || schema.size() > kReferenceKeywordsMax) {
    return false;
  }
  for (const auto& [name, unused] : schema.items()) {
    if (name != "$ref" && !IsNote(name)) return false;
  }
  return true;
}

// The target of $ref is added before the schema's own keywords, so that a base's properties come
// first.
Result<void> SchemaCompiler::Add(const Json& schema, Conjunction& conjunction, int references) {
  if (schema.is_boolean()) {
    conjunction.impossible |= !schema.get<bool>();
    return {};
  }
  std::vector<Element>& elements = conjunction.elements;
  const bool known = std::any_of(elements.begin(), elements.end(),
                                 [&](const Element& element) { return element.schema == &schema; });
  if (known) return {};
  if (elements.size() == limits_.parts_max) {
    return document_.ErrorAt(
        schema, "", ErrorCode::kTooLarge,
        fmt::format("one value must meet more than {} schemas at once", limits_.parts_max));
  }
  KVGATE_TRY_VOID(Charge(conjunction, kElementSteps));
  if (const auto checked = document_.CheckKeywords(schema); !checked) {
    if (limits_.is_relaxed) return {};  // an unsupported schema is ignored
    return checked;
  }
  if (OnlyRefers(schema) && references < kReferencesMax) {
    const Result<const Json*> target = document_.Resolve(schema);
    if (target) return Add(**target, conjunction, references + 1);
    return limits_.is_relaxed ? Result<void>() : target.error();
  }
  const size_t own = elements.size();
  elements.push_back({.schema = &schema});
  if (schema.contains("$ref")) {
    const Result<const Json*> target = document_.Resolve(schema);
    if (!target && !limits_.is_relaxed) return target.error();
    if (target) KVGATE_TRY_VOID(Add(**target, conjunction));
  }
  if (schema.contains("allOf")) {
    for (size_t i = 0; i < schema.at("allOf").size(); ++i) {
      KVGATE_TRY(const Json* part, document_.Child(schema, "allOf", i));
      KVGATE_TRY_VOID(Add(*part, conjunction));
    }
  }
  const auto begin = elements.begin() + static_cast<ptrdiff_t>(own);
  std::rotate(begin, begin + 1, elements.end());
  return {};
}

RuleId SchemaCompiler::RuleOf(Conjunction conjunction) {
  const auto known = rules_.find(conjunction);
  if (known != rules_.end()) return known->second;
  const RuleId rule = grammar_.AddRule("schema");
  conjunctions_[rule.value] = &rules_.emplace(conjunction, rule).first->first;
  pending_.emplace_back(std::move(conjunction), rule);
  return rule;
}

Result<ExprId> SchemaCompiler::BodyOfChoice(const Conjunction& conjunction, size_t index,
                                            const char* keyword, const Make& make) {
  const Json& schema = *conjunction.elements[index].schema;
  const bool is_one = std::string_view(keyword) == "oneOf";
  if (is_one && !limits_.is_relaxed) KVGATE_TRY_VOID(CheckDisjoint(conjunction, index));
  std::vector<ExprId> alternatives;
  for (size_t i = 0; i < schema.at(keyword).size(); ++i) {
    KVGATE_TRY_VOID(Charge(conjunction, kElementSteps * (conjunction.elements.size() + 1)));
    KVGATE_TRY(const Json* alternative, document_.Child(schema, keyword, i));
    Conjunction longer = conjunction;
    (is_one ? longer.elements[index].one_done : longer.elements[index].any_done) = true;
    KVGATE_TRY_VOID(Add(*alternative, longer));
    KVGATE_TRY(const ExprId made, make(longer));
    alternatives.push_back(made);
  }
  return grammar_.Choice(alternatives);
}

Result<std::optional<ExprId>> SchemaCompiler::ChoiceOf(const Conjunction& conjunction,
                                                       const Make& make) {
  for (size_t i = 0; i < conjunction.elements.size(); ++i) {
    const Element& element = conjunction.elements[i];
    for (const char* const keyword : {"anyOf", "oneOf"}) {
      const bool is_done =
          std::string_view(keyword) == "anyOf" ? element.any_done : element.one_done;
      if (is_done || !element.schema->contains(keyword)) continue;
      KVGATE_TRY(const ExprId choice, BodyOfChoice(conjunction, i, keyword, make));
      return std::optional<ExprId>(choice);
    }
  }
  return std::optional<ExprId>();
}

// A grammar cannot check that exactly one alternative holds, so the alternatives must exclude each
// other.
Result<void> SchemaCompiler::CheckDisjoint(const Conjunction& conjunction, size_t index) {
  const Json& schema = *conjunction.elements[index].schema;
  const bool alone = std::all_of(
      conjunction.elements.begin(), conjunction.elements.end(),
      [this](const Element& element) { return FactsOf(*element.schema).types_of_keywords == 0; });
  if (!disjoint_.emplace(&schema, alone).second) return {};
  const Json& alternatives = schema.at("oneOf");
  if (alternatives.size() > limits_.one_of_max) {
    return document_.ErrorAt(schema, "oneOf", ErrorCode::kTooLarge,
                             fmt::format("has more than {} alternatives", limits_.one_of_max));
  }
  for (size_t i = 0; i < alternatives.size(); ++i) {
    for (size_t j = 0; j < alternatives.size(); ++j) {
      if (i == j) continue;
      KVGATE_TRY(const Json* written, document_.Child(schema, "oneOf", i));
      KVGATE_TRY(const Json* read, document_.Child(schema, "oneOf", j));
      KVGATE_TRY(
          const bool excluded,
          Excludes(document_, {.written = *written, .read = *read, .alone = alone}, budget_));
      KVGATE_TRY_VOID(Charge(conjunction, 0));
      if (excluded) continue;
      return document_.ErrorAt(
          schema, "oneOf", ErrorCode::kUnsupported,
          fmt::format("has alternatives {} and {}, which one value might both meet; only what "
                      "rules each other out is supported (else use anyOf)",
                      std::min(i, j), std::max(i, j)));
    }
  }
  return {};
}

Result<unsigned> SchemaCompiler::TypesOf(const Conjunction& conjunction) const {
  unsigned types = kAnyType;
  unsigned implied = 0;
  unsigned excluded = 0;
  bool named = false;
  for (const Element& element : conjunction.elements) {
    const Facts& facts = FactsOf(*element.schema);
    if (const std::optional<unsigned> own = facts.named_types) {
      types &= *own;
      named = true;
    }
    implied |= facts.types_of_keywords;
    const Result<Exclusion>& exclusion = ExclusionOf(element);
    if (!exclusion) return exclusion.error();
    excluded |= exclusion->types;
  }
  return (!named && implied != 0 ? implied : types) & ~excluded;
}

const Result<SchemaCompiler::Exclusion>& SchemaCompiler::ExclusionOf(const Element& element) const {
  const auto known = exclusions_.find(element.schema);
  if (known != exclusions_.end()) return known->second;
  return exclusions_.emplace(element.schema, ReadExclusion(element)).first->second;
}

// Supports "not" of a type, of values or of a pattern. Other forms would need the complement of a
// grammar.
Result<SchemaCompiler::Exclusion> SchemaCompiler::ReadExclusion(const Element& element) const {
  const auto found = element.schema->find("not");
  if (found == element.schema->end()) return Exclusion();
  KVGATE_TRY(const Json* excluded, document_.Child(*element.schema, "not"));
  if (excluded->is_boolean()) return Exclusion{.types = *excluded == true ? kAnyType : 0u};
  KVGATE_TRY_VOID(document_.CheckKeywords(*excluded));
  const std::optional<unsigned> named = NamedTypes(*excluded);
  const unsigned types = named.value_or(kAnyType);
  const bool splits_numbers = (types & kInteger) != 0 && (types & kFraction) == 0;
  size_t num_others = 0;  // keywords besides annotations and types
  size_t num_keywords = 0;
  for (const auto& [name, unused] : excluded->items()) {
    if (name == "title" || name == "description") continue;
    ++num_keywords;
    if (name != "type" && name != "nullable") ++num_others;
  }
  if (num_keywords == 0) return Exclusion{.types = kAnyType};
  if (num_others == 0 && !splits_numbers) return Exclusion{.types = types};
  Exclusion exclusion;
  if (num_others == 1 && excluded->contains("pattern") && (types & kString) != 0) {
    // Values of other types satisfy `pattern` trivially, so "not" excludes them.
    exclusion.types = types & ~static_cast<unsigned>(kString);
    exclusion.pattern_of = excluded;
    if (!splits_numbers) return exclusion;
  }
  if (num_others == 1 && (excluded->contains("enum") || excluded->contains("const"))) {
    bool simple = true;
    const auto add = [&](const Json& value) {
      if ((TypeOf(value) & types) == 0) return;
      simple = simple && (value.is_string() || value.is_null() || value.is_boolean());
      exclusion.values.push_back(&value);
      exclusion.value_set.Insert(value);
    };
    if (excluded->contains("const")) {
      add(excluded->at("const"));
    } else {
      for (const Json& value : excluded->at("enum")) add(value);
    }
    if (simple || HasValues({.elements = {element}})) return exclusion;
  }
  return ErrorAt(element, "not", ErrorCode::kUnsupported,
                 "is only supported of a type, of named strings, booleans and null, or of a "
                 "pattern");
}

Result<ExprId> SchemaCompiler::BodyOf(const Conjunction& conjunction, unsigned wanted) {
  if (conjunction.impossible) return grammar_.Nothing();
  const auto as_rule = [this](const Conjunction& longer) -> Result<ExprId> {
    return grammar_.Rule(RuleOf(longer));
  };
  KVGATE_TRY(const std::optional<ExprId> choice, ChoiceOf(conjunction, as_rule));
  if (choice) return *choice;
  KVGATE_TRY(unsigned types, TypesOf(conjunction));
  types &= wanted;
  if (HasValues(conjunction)) return Values(conjunction, types);
  const bool excludes =
      std::any_of(conjunction.elements.begin(), conjunction.elements.end(),
                  [](const Element& element) { return element.schema->contains("not"); });
  if (types == kAnyType && !excludes) return parts_.AnyValue();
  std::vector<ExprId> alternatives;
  const auto add = [&](const Result<ExprId>& made, auto any) -> Result<void> {
    if (!made && !limits_.is_relaxed) return made.error();
    alternatives.push_back(made ? *made : any());
    return {};
  };
  if (types & kObject) {
    KVGATE_TRY_VOID(add(Object(conjunction), [&] { return parts_.AnyObject(); }));
  }
  if (types & kArray) {
    KVGATE_TRY_VOID(add(Array(conjunction), [&] { return parts_.AnyArray(); }));
  }
  if (types & kString) {
    KVGATE_TRY_VOID(add(String(conjunction), [&] { return parts_.String({}); }));
  }
  if (types & (kInteger | kFraction)) {
    const bool only_integers = (types & kFraction) == 0;
    KVGATE_TRY_VOID(add(Number(conjunction, only_integers),
                        [&] { return only_integers ? parts_.AnyInteger() : parts_.AnyNumber(); }));
  }
  for (const Json& value : {Json(true), Json(false), Json()}) {
    bool accepted = (types & TypeOf(value)) != 0;
    for (const Element& element : conjunction.elements) {
      KVGATE_TRY(const bool accepts, Accepts(element, value));
      accepted = accepted && accepts;
    }
    if (accepted) alternatives.push_back(parts_.Value(value.dump()));
  }
  return grammar_.Choice(alternatives);
}

Result<ExprId> AddJsonSchema(Grammar& grammar, std::string_view schema,
                             const SchemaLimits& limits) {
  KVGATE_TRY(SchemaDocument document, SchemaDocument::Parse(schema, limits));
  return SchemaCompiler(grammar, document, limits).Compile();
}

Result<ExprId> AddArguments(Grammar& grammar, std::string_view schema, const SchemaLimits& limits,
                            const PairForm* form) {
  KVGATE_TRY(SchemaDocument document, SchemaDocument::Parse(schema, limits));
  const bool in_markup = form != nullptr && !form->closing.empty();
  return SchemaCompiler(grammar, document, limits,
                        in_markup ? rules::JsonStyle::kInMarkup : rules::JsonStyle::kUsual)
      .CompileArguments(form);
}

Result<Grammar> CompileJsonSchema(std::string_view schema, const SchemaLimits& limits) {
  Grammar grammar;
  KVGATE_TRY(const ExprId value, AddJsonSchema(grammar, schema, limits));
  if (grammar.is_full()) {
    return MakeError(
        ErrorCode::kTooLarge, "grammar.schema",
        fmt::format("the schema needs more than {} MiB of rules", Grammar::kBytesMax >> 20));
  }
  const RuleId root = grammar.AddRule("root");
  grammar.SetBody(root, value);
  grammar.SetRoot(root);
  if (!rules::Analyze(grammar).productive[value.value]) {
    return MakeError(ErrorCode::kInvalidArgument, "grammar.schema",
                     "no value that we could write meets the schema");
  }
  return grammar;
}

Grammar AnyJsonObject() {
  Grammar grammar;
  rules::JsonParts parts(grammar);
  const ExprId object = parts.AnyObject();
  const RuleId root = grammar.AddRule("root");
  grammar.SetBody(root, object);
  grammar.SetRoot(root);
  return grammar;
}

}  // namespace kvgate::grammar::schema
