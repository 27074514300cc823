// SchemaCompiler: builds the rules of a grammar from a schema. Included only by this folder's .cc
// files.
//
// The constraints on one value are a conjunction: a list of schemas that must all hold. References
// and allOf extend the list; anyOf and oneOf make a choice of longer lists. Equal lists share a
// rule, which makes recursion end.
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

#include "base/result.h"
#include "engine/text/grammar/rules/char_dfa.h"
#include "engine/text/grammar/rules/grammar.h"
#include "engine/text/grammar/rules/json_parts.h"
#include "engine/text/grammar/rules/number_range.h"
#include "engine/text/grammar/schema/json_schema.h"
#include "engine/text/grammar/schema/schema_document.h"
#include "engine/text/grammar/schema/value_set.h"

namespace kvgate::grammar::schema {

class SchemaCompiler {
 public:
  SchemaCompiler(rules::Grammar& grammar, SchemaDocument& document, const SchemaLimits& limits,
                 rules::JsonStyle style = rules::JsonStyle::kUsual)
      : grammar_(grammar),
        parts_(grammar, style),
        document_(document),
        limits_(limits),
        budget_(limits.budget != nullptr ? *limits.budget : own_budget_) {}

  Result<rules::ExprId> Compile();
  // See AddArguments.
  Result<rules::ExprId> CompileArguments(const PairForm* form);

 private:
  // One schema by its own keywords only; the schemas it refers to are separate elements.
  struct Element {
    const Json* schema = nullptr;
    bool any_done = false;  // its anyOf is already resolved
    bool one_done = false;
    friend auto operator<=>(const Element&, const Element&) = default;
  };
  struct Conjunction {
    std::vector<Element> elements;
    bool impossible = false;  // one of the schemas is `false`
    friend auto operator<=>(const Conjunction&, const Conjunction&) = default;
  };

  Result<void> CompilePending();
  // Charges this many steps. kTooLarge: the budget is spent, or the grammar is full.
  Result<void> Charge(const Conjunction& conjunction, uint64_t steps) const;
  // Facts about a schema's own keywords, computed once.
  struct Facts {
    std::optional<unsigned> named_types;
    unsigned types_of_keywords = 0;
    ValueSet values;  // listed in its enum
  };
  const Facts& FactsOf(const Json& schema) const;
  bool OnlyRefers(const Json& schema) const;
  Result<Conjunction> Join(std::span<const Json* const> schemas);
  // `references`: length of the chain of pure references that led to this schema.
  Result<void> Add(const Json& schema, Conjunction& conjunction, int references = 0);
  rules::RuleId RuleOf(Conjunction conjunction);
  Result<rules::ExprId> BodyOf(const Conjunction& conjunction, unsigned wanted_types);
  // Resolves the first anyOf or oneOf; `make` builds each alternative. Returns nothing if there is
  // none.
  using Make = std::function<Result<rules::ExprId>(const Conjunction&)>;
  Result<std::optional<rules::ExprId>> ChoiceOf(const Conjunction& conjunction, const Make& make);
  Result<rules::ExprId> BodyOfChoice(const Conjunction& conjunction, size_t index,
                                     const char* keyword, const Make& make);
  Result<void> CheckDisjoint(const Conjunction& conjunction, size_t index);
  Result<unsigned> TypesOf(const Conjunction& conjunction) const;
  // The content of a schema's "not", as far as it is supported.
  struct Exclusion {
    unsigned types = 0;
    std::vector<const Json*> values = {};
    ValueSet value_set = {};           // the same values, for look-ups
    const Json* pattern_of = nullptr;  // the schema whose pattern must not match; null: none
  };
  const Result<Exclusion>& ExclusionOf(const Element& element) const;
  Result<Exclusion> ReadExclusion(const Element& element) const;

  // schema_values.cc
  bool HasValues(const Conjunction& conjunction) const;
  Result<rules::ExprId> Values(const Conjunction& conjunction, unsigned types);
  Result<std::vector<const Json*>> NamedValues(const Conjunction& conjunction,
                                               unsigned types) const;
  Result<bool> Accepts(const Element& element, const Json& value) const;
  Result<bool> AcceptsNumber(const Element& element, const Json& value) const;
  Result<bool> AcceptsText(const Element& element, const std::string& text) const;
  // The texts allowed by its patterns, formats and exclusions; null: no restriction.
  Result<const rules::CharDfa*> TextDfaOf(const Element& element) const;
  Result<rules::ExprId> String(const Conjunction& conjunction);
  // The conditions that patterns, formats and exclusions put on a text.
  Result<std::vector<rules::TextCondition>> TextConditions(const Conjunction& conjunction) const;
  Result<void> AddTextConditions(const Element& element,
                                 std::vector<rules::TextCondition>& conditions) const;
  // Charges the limit on the work for all automata of the schema together.
  Result<rules::CharDfa> MakeTextDfa(std::span<const rules::TextCondition> conditions) const;
  // The same for an automaton that is kept until the schema is compiled.
  Result<rules::CharDfa> MakeKeptDfa(std::span<const rules::TextCondition> conditions) const;
  Error TooManyStates(const Conjunction& conjunction, const Error& error) const;
  Result<rules::RepeatCount> Lengths(const Conjunction& conjunction, const char* min,
                                     const char* max) const;
  Result<rules::ExprId> Number(const Conjunction& conjunction, bool only_integers);
  Result<uint64_t> MultipleOf(const Conjunction& conjunction) const;

  // schema_collections.cc
  struct Property {
    std::string name;
    rules::RuleId value;
    bool required = false;
  };
  struct Rest {  // constrains properties or items that are not declared
    bool open = false;
    std::vector<const Json*> schemas;
  };
  Result<rules::ExprId> Object(const Conjunction& conjunction);
  Result<std::vector<Property>> Properties(const Conjunction& conjunction);
  Result<Rest> AdditionalProperties(const Conjunction& conjunction);
  struct NamePattern;
  // Constraints on the names of all properties, read once for all of them.
  struct NameRules {
    std::vector<NamePattern> patterns;
    std::optional<Conjunction> names;
  };
  Result<rules::RuleId> PropertyValue(const Conjunction& conjunction, const NameRules& rules,
                                      const std::string& name);
  Result<void> CheckPropertyCounts(const Conjunction& conjunction, rules::RepeatCount count,
                                   size_t num_properties, bool open) const;
  rules::ExprId PropertyList(std::span<const Property> properties,
                             std::optional<rules::ExprId> more);
  rules::ExprId CountedList(std::span<const Property> properties, std::optional<rules::ExprId> more,
                            rules::RepeatCount count);
  rules::ExprId ShortList(std::optional<rules::ExprId> more, rules::RepeatCount count,
                          bool is_first);

  // schema_arguments.cc
  Result<rules::ExprId> Pairs(const Conjunction& conjunction, const PairForm& form);
  Result<rules::ExprId> PairValue(const Property& property, const PairForm& form);
  Result<rules::ExprId> PlainText(const Conjunction& conjunction, const PairForm& form);

  // schema_names.cc: the names of undeclared properties.
  struct NamePattern {  // one of patternProperties
    const Element* element = nullptr;
    std::string text;
    rules::Pattern pattern;
    const rules::CharDfa* dfa = nullptr;
  };
  Result<std::vector<NamePattern>> NamePatterns(const Conjunction& conjunction) const;
  // The conjunction of all propertyNames; nothing if there are none.
  Result<std::optional<Conjunction>> NamesOf(const Conjunction& conjunction);
  Result<bool> AcceptsName(const std::optional<Conjunction>& names, const std::string& name);
  // A pair with an undeclared name; nothing if no such pair is allowed.
  Result<std::optional<rules::ExprId>> OtherPairs(const Conjunction& conjunction,
                                                  std::span<const Property> properties,
                                                  const Rest& rest);
  Result<rules::ExprId> PairsOfPatterns(const Conjunction& conjunction,
                                        std::span<const NamePattern> patterns, unsigned matched,
                                        std::span<const Property> properties,
                                        const std::optional<Conjunction>& names);

  Result<rules::ExprId> Array(const Conjunction& conjunction);
  Result<size_t> PrefixLength(const Conjunction& conjunction) const;
  Result<rules::RuleId> ItemAt(const Conjunction& conjunction, size_t index);
  Result<bool> IsClosedBehind(const Conjunction& conjunction, size_t prefix) const;
  Result<rules::ExprId> DistinctItems(const Conjunction& conjunction, const Element& owner,
                                      rules::RepeatCount count);
  rules::ExprId InAnyOrder(std::span<const rules::ExprId> values, rules::RepeatCount count);
  Result<std::optional<std::vector<Json>>> FewValues(const Conjunction& conjunction) const;
  rules::ExprId InOrder(std::span<const rules::ExprId> values, rules::RepeatCount count);

  Error ErrorAt(const Element& element, const char* keyword, ErrorCode code,
                std::string_view what) const {
    return document_.ErrorAt(*element.schema, keyword, code, what);
  }

  rules::Grammar& grammar_;
  rules::JsonParts parts_;
  SchemaDocument& document_;
  const SchemaLimits& limits_;
  std::optional<rules::RuleId> root_;                  // this rule must produce an object
  static constexpr uint64_t kDfaWorkMax = 40'000'000;  // about 200 ms
  mutable uint64_t dfa_work_ = 0;
  static constexpr size_t kDfaBytesMax = size_t{32} << 20;  // of the automata that are kept
  mutable size_t dfa_bytes_ = 0;
  mutable std::map<std::string, rules::CharDfa> name_dfas_;  // by pattern of patternProperties
  mutable std::unordered_map<const Json*, Result<rules::CharDfa>> text_dfas_;
  mutable std::unordered_map<const Json*, Facts> facts_;
  mutable std::unordered_map<const Json*, Result<Exclusion>> exclusions_;
  std::set<std::pair<const Json*, bool>> disjoint_;  // checked oneOf schemas, see CheckDisjoint
  mutable rules::Budget own_budget_;
  rules::Budget& budget_;
  std::map<Conjunction, rules::RuleId> rules_;
  std::unordered_map<uint32_t, const Conjunction*> conjunctions_;  // by rule: keys of rules_
  std::vector<std::pair<Conjunction, rules::RuleId>> pending_;
};

}  // namespace kvgate::grammar::schema
