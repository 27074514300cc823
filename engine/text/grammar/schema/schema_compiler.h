// SchemaCompiler: the rules of a grammar from a schema. Included only by this folder's .cc files.
//
// What one value must be is a conjunction: a list of schemas that all hold. References and allOf
// add to the list; anyOf and oneOf make a choice of longer lists. Equal lists share a rule, which
// is what ends recursion.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <kvgate/result.h>

#include "engine/text/grammar/rules/char_dfa.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/json_parts.h"
#include "engine/text/grammar/schema/json_schema.h"
#include "engine/text/grammar/rules/number_range.h"
#include "engine/text/grammar/schema/schema_document.h"
#include "engine/grammar/value_set.h"

namespace kvgate::grammar {

class SchemaCompiler {
 public:
  SchemaCompiler(Grammar& grammar, SchemaDocument& document, const SchemaLimits& limits,
                 JsonStyle style = JsonStyle::kUsual)
      : grammar_(grammar),
        parts_(grammar, style),
        document_(document),
        limits_(limits),
        budget_(limits.budget != nullptr ? *limits.budget : own_budget_) {}

  Result<ExprId> Compile();
  // See AddArguments.
  Result<ExprId> CompileArguments(const PairForm* form);

 private:
  // A schema by its own keywords alone: what it refers to stands beside it.
  struct Element {
    const Json* schema = nullptr;
    bool any_done = false;  // its anyOf is dealt with
    bool one_done = false;
    friend auto operator<=>(const Element&, const Element&) = default;
  };
  struct Conjunction {
    std::vector<Element> elements;
    bool impossible = false;  // one of them is `false`
    friend auto operator<=>(const Conjunction&, const Conjunction&) = default;
  };

  Result<void> CompilePending();
  // Charges so many steps. kTooLarge: they, or the grammar's memory, are more than there may be.
  Result<void> Charge(const Conjunction& conjunction, uint64_t steps) const;
  // What a schema's own keywords say, looked at once.
  struct Facts {
    std::optional<unsigned> named_types;
    unsigned types_of_keywords = 0;
    ValueSet values;  // of its enum
  };
  const Facts& FactsOf(const Json& schema) const;
  bool OnlyRefers(const Json& schema) const;
  Result<Conjunction> Join(std::span<const Json* const> schemas);
  // `references`: that only refer, and led here.
  Result<void> Add(const Json& schema, Conjunction& conjunction, int references = 0);
  RuleId RuleOf(Conjunction conjunction);
  Result<ExprId> BodyOf(const Conjunction& conjunction, unsigned wanted_types);
  // The choice that anyOf or oneOf leaves, each alternative made by `make`; absent: there is none.
  using Make = std::function<Result<ExprId>(const Conjunction&)>;
  Result<std::optional<ExprId>> ChoiceOf(const Conjunction& conjunction, const Make& make);
  Result<ExprId> BodyOfChoice(const Conjunction& conjunction, size_t index, const char* keyword,
                              const Make& make);
  Result<void> CheckDisjoint(const Conjunction& conjunction, size_t index);
  Result<unsigned> TypesOf(const Conjunction& conjunction) const;
  // Of a schema under "not", as far as we have it.
  struct Exclusion {
    unsigned types = 0;
    std::vector<const Json*> values = {};
    ValueSet value_set = {};           // the same
    const Json* pattern_of = nullptr;  // its pattern is not to match
  };
  const Result<Exclusion>& ExclusionOf(const Element& element) const;
  Result<Exclusion> ReadExclusion(const Element& element) const;

  // schema_values.cc
  bool HasValues(const Conjunction& conjunction) const;
  Result<ExprId> Values(const Conjunction& conjunction, unsigned types);
  Result<std::vector<const Json*>> NamedValues(const Conjunction& conjunction,
                                               unsigned types) const;
  Result<bool> Accepts(const Element& element, const Json& value) const;
  Result<bool> AcceptsNumber(const Element& element, const Json& value) const;
  Result<bool> AcceptsText(const Element& element, const std::string& text) const;
  // What its patterns, formats and exclusions take; null: anything.
  Result<const CharDfa*> TextDfaOf(const Element& element) const;
  Result<ExprId> String(const Conjunction& conjunction);
  // What its patterns, formats and exclusions say of a text.
  Result<std::vector<TextCondition>> TextConditions(const Conjunction& conjunction) const;
  Result<void> AddTextConditions(const Element& element,
                                 std::vector<TextCondition>& conditions) const;
  // Within what all automata of the schema may cost together.
  Result<CharDfa> MakeTextDfa(std::span<const TextCondition> conditions) const;
  // The same, for one that stays until the schema is compiled.
  Result<CharDfa> MakeKeptDfa(std::span<const TextCondition> conditions) const;
  Error TooManyStates(const Conjunction& conjunction, const Error& error) const;
  Result<RepeatCount> Lengths(const Conjunction& conjunction, const char* min,
                              const char* max) const;
  Result<ExprId> Number(const Conjunction& conjunction, bool only_integers);
  Result<uint64_t> MultipleOf(const Conjunction& conjunction) const;

  // schema_collections.cc
  struct Property {
    std::string name;
    RuleId value;
    bool required = false;
  };
  struct Rest {  // of an object or array: what may follow the declared ones
    bool open = false;
    std::vector<const Json*> schemas;
  };
  Result<ExprId> Object(const Conjunction& conjunction);
  Result<std::vector<Property>> Properties(const Conjunction& conjunction);
  Result<Rest> AdditionalProperties(const Conjunction& conjunction);
  struct NamePattern;
  // What is said of the names of all properties, read once for all of them.
  struct NameRules {
    std::vector<NamePattern> patterns;
    std::optional<Conjunction> names;
  };
  Result<RuleId> PropertyValue(const Conjunction& conjunction, const NameRules& rules,
                               const std::string& name);
  Result<void> CheckPropertyCounts(const Conjunction& conjunction, RepeatCount count,
                                   size_t num_properties, bool open) const;
  ExprId PropertyList(std::span<const Property> properties, std::optional<ExprId> more);
  ExprId CountedList(std::span<const Property> properties, std::optional<ExprId> more,
                     RepeatCount count);
  ExprId ShortList(std::optional<ExprId> more, RepeatCount count, bool is_first);

  // schema_arguments.cc
  Result<ExprId> Pairs(const Conjunction& conjunction, const PairForm& form);
  Result<ExprId> PairValue(const Property& property, const PairForm& form);
  Result<ExprId> PlainText(const Conjunction& conjunction, const PairForm& form);

  // schema_names.cc: the names of properties that are not declared.
  struct NamePattern {  // one of patternProperties
    const Element* element = nullptr;
    std::string text;
    Pattern pattern;
    const CharDfa* dfa = nullptr;
  };
  Result<std::vector<NamePattern>> NamePatterns(const Conjunction& conjunction) const;
  // What propertyNames say; absent: nothing.
  Result<std::optional<Conjunction>> NamesOf(const Conjunction& conjunction);
  Result<bool> AcceptsName(const std::optional<Conjunction>& names, const std::string& name);
  // A name that is not declared, a colon and a value; absent: there are no others.
  Result<std::optional<ExprId>> OtherPairs(const Conjunction& conjunction,
                                           std::span<const Property> properties, const Rest& rest);
  Result<ExprId> PairsOfPatterns(const Conjunction& conjunction,
                                 std::span<const NamePattern> patterns, unsigned matched,
                                 std::span<const Property> properties,
                                 const std::optional<Conjunction>& names);

  Result<ExprId> Array(const Conjunction& conjunction);
  Result<size_t> PrefixLength(const Conjunction& conjunction) const;
  Result<RuleId> ItemAt(const Conjunction& conjunction, size_t index);
  Result<bool> IsClosedBehind(const Conjunction& conjunction, size_t prefix) const;
  Result<ExprId> DistinctItems(const Conjunction& conjunction, const Element& owner,
                               RepeatCount count);
  ExprId InAnyOrder(std::span<const ExprId> values, RepeatCount count);
  Result<std::optional<std::vector<Json>>> FewValues(const Conjunction& conjunction) const;
  ExprId InOrder(std::span<const ExprId> values, RepeatCount count);

  Error ErrorAt(const Element& element, const char* keyword, ErrorCode code,
                std::string_view what) const {
    return document_.ErrorAt(*element.schema, keyword, code, what);
  }

  Grammar& grammar_;
  JsonParts parts_;
  SchemaDocument& document_;
  const SchemaLimits& limits_;
  std::optional<RuleId> root_;                         // that must be an object
  static constexpr uint64_t kDfaWorkMax = 40'000'000;  // some 200 ms
  mutable uint64_t dfa_work_ = 0;
  static constexpr size_t kDfaBytesMax = size_t{32} << 20;  // of those that are kept
  mutable size_t dfa_bytes_ = 0;
  mutable std::map<std::string, CharDfa> name_dfas_;  // of patternProperties
  mutable std::unordered_map<const Json*, Result<CharDfa>> text_dfas_;
  mutable std::unordered_map<const Json*, Facts> facts_;
  mutable std::unordered_map<const Json*, Result<Exclusion>> exclusions_;
  std::set<std::pair<const Json*, bool>> disjoint_;  // whose oneOf was looked at, and how
  mutable Budget own_budget_;
  Budget& budget_;
  std::map<Conjunction, RuleId> rules_;
  std::unordered_map<uint32_t, const Conjunction*> conjunctions_;  // by rule: keys of rules_
  std::vector<std::pair<Conjunction, RuleId>> pending_;
};

}  // namespace kvgate::grammar
