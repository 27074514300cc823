// SchemaCompiler: strings, numbers, and values that a schema lists.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/utf8.h"
#include "engine/text/grammar/rules/char_dfa.h"
#include "engine/text/grammar/rules/pattern.h"
#include "engine/text/grammar/rules/string_format.h"
#include "engine/text/grammar/schema/schema_compiler.h"

namespace kvgate::grammar::schema {

using rules::CharDfa;
using rules::ExprId;
using rules::kMultipleMax;
using rules::TextCondition;

namespace {

constexpr uint64_t kValueSteps = 10;
constexpr const char* kTextKeywords[] = {"pattern", "format", "not"};
constexpr double kCountMax = 1e9;  // larger bounds on lengths do not matter

uint32_t ToCount(const Json& value) {
  return static_cast<uint32_t>(std::min(value.get<double>(), kCountMax));
}

rules::Bound ToBound(const Json& value, bool exclusive) {
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<uint64_t>() >> 63 != 0);
  return {.value =
              fits ? rules::ToDecimal(value.get<int64_t>()) : rules::ToDecimal(value.get<double>()),
          .exclusive = exclusive};
}

// Returns true if the number is within the bound schema[keyword].
bool Meets(const Json& schema, const char* keyword, const Json& number) {
  const auto at = schema.find(keyword);
  if (at == schema.end()) return true;
  const std::string_view name = keyword;
  if (name == "minimum") return number >= *at;
  if (name == "maximum") return number <= *at;
  if (name == "exclusiveMinimum") return number > *at;
  return number < *at;
}

}  // namespace

bool SchemaCompiler::HasValues(const Conjunction& conjunction) const {
  return std::any_of(conjunction.elements.begin(), conjunction.elements.end(),
                     [](const Element& element) {
                       return element.schema->contains("const") || element.schema->contains("enum");
                     });
}

// Returns the listed values that meet all other keywords, each once.
Result<std::vector<const Json*>> SchemaCompiler::NamedValues(const Conjunction& conjunction,
                                                             unsigned types) const {
  std::vector<const Json*> named;
  for (const Element& element : conjunction.elements) {
    if (element.schema->contains("const")) {
      named = {&element.schema->at("const")};
      break;
    }
    if (named.empty() && element.schema->contains("enum")) {
      for (const Json& value : element.schema->at("enum")) named.push_back(&value);
    }
  }
  std::vector<const Json*> values;
  ValueSet known;
  for (const Json* const value : named) {
    KVGATE_TRY_VOID(Charge(conjunction, kValueSteps * conjunction.elements.size()));
    bool accepted = (TypeOf(*value) & types) != 0 && !known.Contains(*value);
    for (const Element& element : conjunction.elements) {
      KVGATE_TRY(const bool accepts, Accepts(element, *value));
      accepted = accepted && accepts;
    }
    if (!accepted) continue;
    known.Insert(*value);
    values.push_back(value);
  }
  return values;
}

Result<ExprId> SchemaCompiler::Values(const Conjunction& conjunction, unsigned types) {
  KVGATE_TRY(const std::vector<const Json*> values, NamedValues(conjunction, types));
  std::vector<ExprId> alternatives;
  for (const Json* const value : values) alternatives.push_back(parts_.Value(value->dump()));
  return grammar_.Choice(alternatives);
}

// Returns true if a listed value meets the schema's other keywords.
Result<bool> SchemaCompiler::Accepts(const Element& element, const Json& value) const {
  const Json& schema = *element.schema;
  const Facts& facts = FactsOf(schema);
  if (schema.contains("const") && schema.at("const") != value) return false;
  if (schema.contains("enum") && !facts.values.Contains(value)) return false;
  const Result<Exclusion>& exclusion = ExclusionOf(element);
  if (!exclusion) return exclusion.error();
  if (exclusion->value_set.Contains(value)) return false;
  if (value.is_number()) return AcceptsNumber(element, value);
  if (value.is_string()) return AcceptsText(element, value.get_ref<const std::string&>());
  if ((facts.types_of_keywords & TypeOf(value)) != 0) {
    return ErrorAt(element, "", ErrorCode::kUnsupported,
                   "keywords about objects or arrays are not supported beside a const or enum of "
                   "them");
  }
  return true;
}

Result<bool> SchemaCompiler::AcceptsNumber(const Element& element, const Json& value) const {
  const Json& schema = *element.schema;
  for (const char* keyword : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
    if (!Meets(schema, keyword, value)) return false;
  }
  if (!schema.contains("multipleOf")) return true;
  const double quotient = value.get<double>() / schema.at("multipleOf").get<double>();
  return quotient == std::floor(quotient);  // readers compute it in doubles
}

Result<bool> SchemaCompiler::AcceptsText(const Element& element, const std::string& text) const {
  const Json& schema = *element.schema;
  const size_t length = CountUtf8Characters(text);
  if (schema.contains("minLength") && length < ToCount(schema.at("minLength"))) return false;
  if (schema.contains("maxLength") && length > ToCount(schema.at("maxLength"))) return false;
  KVGATE_TRY(const CharDfa* dfa, TextDfaOf(element));
  return dfa == nullptr || dfa->Takes(text);
}

// The automaton is cached, because an enum may hold thousands of texts.
Result<const CharDfa*> SchemaCompiler::TextDfaOf(const Element& element) const {
  const bool has_any =
      std::any_of(std::begin(kTextKeywords), std::end(kTextKeywords),
                  [&](const char* keyword) { return element.schema->contains(keyword); });
  if (!has_any) return static_cast<const CharDfa*>(nullptr);
  auto known = text_dfas_.find(element.schema);
  if (known == text_dfas_.end()) {
    std::vector<TextCondition> conditions;
    KVGATE_TRY_VOID(AddTextConditions(element, conditions));
    if (conditions.empty()) return static_cast<const CharDfa*>(nullptr);
    known = text_dfas_.emplace(element.schema, MakeKeptDfa(conditions)).first;
  }
  if (!known->second) return TooManyStates({.elements = {element}}, known->second.error());
  return &*known->second;
}

Result<CharDfa> SchemaCompiler::MakeKeptDfa(std::span<const TextCondition> conditions) const {
  KVGATE_TRY(CharDfa dfa, MakeTextDfa(conditions));
  dfa_bytes_ += dfa.bytes();
  if (dfa_bytes_ <= kDfaBytesMax) return dfa;
  return MakeError(ErrorCode::kTooLarge, "grammar.schema",
                   fmt::format("needs more than {} MiB together with the schema's other patterns",
                               kDfaBytesMax >> 20));
}

Result<rules::RepeatCount> SchemaCompiler::Lengths(const Conjunction& conjunction, const char* min,
                                                   const char* max) const {
  rules::RepeatCount count;
  for (const Element& element : conjunction.elements) {
    const Json& schema = *element.schema;
    if (schema.contains(min)) {
      if (schema.at(min).get<double>() >= kCountMax) {
        return ErrorAt(element, min, ErrorCode::kUnsupported, "is so large that nothing meets it");
      }
      count.min = std::max(count.min, ToCount(schema.at(min)));
    }
    if (schema.contains(max) && schema.at(max).get<double>() < kCountMax) {
      count.max = std::min(count.max, ToCount(schema.at(max)));
    }
  }
  return count;
}

Result<void> SchemaCompiler::AddTextConditions(const Element& element,
                                               std::vector<TextCondition>& conditions) const {
  const Json& schema = *element.schema;
  const auto add = [&](const Json& owner, const char* keyword, std::string_view text,
                       bool negated) -> Result<void> {
    Result<rules::Pattern> parsed = rules::ParsePattern(text, {});
    if (!parsed) {
      return document_.ErrorAt(owner, keyword, parsed.error().code, parsed.error().detail);
    }
    conditions.push_back({.pattern = std::move(*parsed), .negated = negated});
    return {};
  };
  if (schema.contains("pattern")) {
    const auto& text = schema.at("pattern").get_ref<const std::string&>();
    KVGATE_TRY_VOID(add(schema, "pattern", text, false));
  }
  if (schema.contains("format")) {
    const auto& name = schema.at("format").get_ref<const std::string&>();
    const std::optional<std::string_view> text = rules::PatternOfFormat(name);
    if (!text && !limits_.is_relaxed) {
      return ErrorAt(element, "format", ErrorCode::kUnsupported,
                     fmt::format("is '{}', which is not supported; supported are {}",
                                 name.substr(0, 100), rules::FormatNames()));
    }
    if (text && !text->empty()) KVGATE_TRY_VOID(add(schema, "format", *text, false));
  }
  const Result<Exclusion>& exclusion = ExclusionOf(element);
  if (!exclusion) return exclusion.error();
  if (const Json* const owner = exclusion->pattern_of) {
    const auto& text = owner->at("pattern").get_ref<const std::string&>();
    KVGATE_TRY_VOID(add(*owner, "pattern", text, true));
  }
  std::vector<std::string> texts;
  for (const Json* const value : exclusion->values) {
    if (value->is_string()) texts.push_back(value->get<std::string>());
  }
  if (!texts.empty())
    conditions.push_back({.pattern = rules::PatternOfTexts(texts), .negated = true});
  return {};
}

Result<std::vector<TextCondition>> SchemaCompiler::TextConditions(
    const Conjunction& conjunction) const {
  std::vector<TextCondition> conditions;
  for (const Element& element : conjunction.elements) {
    KVGATE_TRY_VOID(AddTextConditions(element, conditions));
  }
  return conditions;
}

Result<CharDfa> SchemaCompiler::MakeTextDfa(std::span<const TextCondition> conditions) const {
  if (dfa_work_ >= kDfaWorkMax) {
    return MakeError(ErrorCode::kTooLarge, "grammar.schema",
                     "needs too many states together with the schema's other patterns");
  }
  Result<CharDfa> dfa = rules::MakeDfa(conditions, {});
  dfa_work_ += dfa ? dfa->work : rules::DfaLimits().work_max;
  return dfa;
}

// The error names the keyword that caused it.
Error SchemaCompiler::TooManyStates(const Conjunction& conjunction, const Error& error) const {
  for (const char* const keyword : kTextKeywords) {
    for (const Element& element : conjunction.elements) {
      if (!element.schema->contains(keyword)) continue;
      return ErrorAt(element, keyword, error.code, error.detail);
    }
  }
  return error;
}

Result<ExprId> SchemaCompiler::String(const Conjunction& conjunction) {
  KVGATE_TRY(const rules::RepeatCount length, Lengths(conjunction, "minLength", "maxLength"));
  if (length.min > length.max) return grammar_.Nothing();
  KVGATE_TRY(const std::vector<TextCondition> conditions, TextConditions(conjunction));
  if (conditions.empty()) return parts_.String(length);
  const Result<CharDfa> dfa = MakeTextDfa(conditions);
  if (!dfa) return TooManyStates(conjunction, dfa.error());
  const Result<ExprId> text = rules::AddTexts(grammar_, parts_, *dfa, {.length = length});
  if (!text) return TooManyStates(conjunction, text.error());
  return grammar_.Sequence({grammar_.Literal("\""), *text, grammar_.Literal("\"")});
}

// Only integer multiples are generated, because readers divide fractions differently.
Result<uint64_t> SchemaCompiler::MultipleOf(const Conjunction& conjunction) const {
  uint64_t multiple = 0;
  for (const Element& element : conjunction.elements) {
    if (!element.schema->contains("multipleOf")) continue;
    double number = element.schema->at("multipleOf").get<double>();
    // Every integer is a multiple of these, exactly or as doubles divide.
    static constexpr double kParts[] = {0.1, 0.01, 0.001, 0.0001};
    if (std::find(std::begin(kParts), std::end(kParts), number) != std::end(kParts)) number = 1;
    // Doubles until it is an integer: for 2.5 the multiples of 5, for 0.75 those of 3.
    for (int halves = 0; halves < 20 && number > 0 && number != std::floor(number); ++halves) {
      number *= 2;
    }
    if (number < 1 || number > static_cast<double>(kMultipleMax) || number != std::floor(number)) {
      return ErrorAt(element, "multipleOf", ErrorCode::kUnsupported,
                     fmt::format("must be an integer from 1 to {}, such a number by a power of "
                                 "two, or 0.1 to 0.0001",
                                 kMultipleMax));
    }
    const auto own = static_cast<uint64_t>(number);
    multiple = multiple == 0 ? own : std::lcm(multiple, own);
    if (multiple > kMultipleMax) {
      return ErrorAt(element, "multipleOf", ErrorCode::kUnsupported,
                     fmt::format("and others have a least common multiple above {}", kMultipleMax));
    }
  }
  return multiple;
}

Result<ExprId> SchemaCompiler::Number(const Conjunction& conjunction, bool only_integers) {
  rules::NumberRange range;
  const Element* owner = nullptr;              // the element with a bound, for errors
  std::optional<std::pair<Json, bool>> lower;  // the tightest, and true if it is exclusive
  std::optional<std::pair<Json, bool>> upper;
  for (const Element& element : conjunction.elements) {
    const Json& schema = *element.schema;
    for (const bool exclusive : {false, true}) {
      const char* const min = exclusive ? "exclusiveMinimum" : "minimum";
      const char* const max = exclusive ? "exclusiveMaximum" : "maximum";
      if (schema.contains(min)) {
        const Json& value = schema.at(min);
        if (!lower || value > lower->first || (value == lower->first && exclusive)) {
          lower.emplace(value, exclusive);
        }
        owner = &element;
      }
      if (schema.contains(max)) {
        const Json& value = schema.at(max);
        if (!upper || value < upper->first || (value == upper->first && exclusive)) {
          upper.emplace(value, exclusive);
        }
        owner = &element;
      }
    }
    if (schema.value("format", "") == "int32") {
      constexpr int64_t kEnd = int64_t{1} << 31;
      if (!lower || lower->first < -kEnd) lower.emplace(-kEnd, false);
      if (!upper || upper->first > kEnd - 1) upper.emplace(kEnd - 1, false);
    }
  }
  if (lower) range.lower = ToBound(lower->first, lower->second);
  if (upper) range.upper = ToBound(upper->first, upper->second);
  KVGATE_TRY(const uint64_t multiple, MultipleOf(conjunction));
  if (only_integers || multiple > 0) {
    if (!range.lower && !range.upper && multiple <= 1) return parts_.AnyInteger();
    Result<ExprId> made = rules::AddIntegerRange(grammar_, range, std::max<uint64_t>(multiple, 1));
    if (!made && owner != nullptr) {
      return ErrorAt(*owner, "", made.error().code, made.error().detail);
    }
    return made;
  }
  if (!range.lower && !range.upper) return parts_.AnyNumber();
  return rules::AddNumberRange(grammar_, range);
}

}  // namespace kvgate::grammar::schema
