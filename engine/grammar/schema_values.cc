// SchemaCompiler's strings, numbers, and values that a schema names.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "engine/grammar/pattern.h"
#include "engine/grammar/schema_compiler.h"
#include "engine/grammar/string_format.h"

namespace kvgate::grammar {
namespace {

constexpr double kCountMax = 1e9;  // more characters or items are no bound that counts

uint32_t ToCount(const Json& value) {
  return static_cast<uint32_t>(std::min(value.get<double>(), kCountMax));
}

size_t NumCharacters(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  }));
}

Bound ToBound(const Json& value, bool exclusive) {
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<uint64_t>() >> 63 != 0);
  return {.value = fits ? ToDecimal(value.get<int64_t>()) : ToDecimal(value.get<double>()),
          .exclusive = exclusive};
}

// Whether a number is on the right side of schema[keyword].
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

Result<ExprId> SchemaCompiler::Values(const Conjunction& conjunction, unsigned types) {
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
  std::vector<ExprId> alternatives;
  for (const Json* const value : named) {
    bool accepted = (TypeOf(*value) & types) != 0;
    for (const Element& element : conjunction.elements) {
      KVGATE_TRY(const bool accepts, Accepts(element, *value));
      accepted = accepted && accepts;
    }
    if (accepted) alternatives.push_back(grammar_.Literal(value->dump()));
  }
  return grammar_.Choice(alternatives);
}

// Whether a named value meets the schema's other keywords.
Result<bool> SchemaCompiler::Accepts(const Element& element, const Json& value) const {
  const Json& schema = *element.schema;
  if (schema.contains("const") && schema.at("const") != value) return false;
  if (schema.contains("enum")) {
    const Json& values = schema.at("enum");
    if (std::find(values.begin(), values.end(), value) == values.end()) return false;
  }
  if (value.is_number()) {
    if (schema.contains("multipleOf")) {
      return ErrorAt(element, "multipleOf", ErrorCode::kUnsupported,
                     "is not supported beside const or enum");
    }
    for (const char* keyword : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
      if (!Meets(schema, keyword, value)) return false;
    }
    return true;
  }
  if (value.is_string()) {
    for (const char* keyword : {"pattern", "format"}) {
      if (!schema.contains(keyword)) continue;
      return ErrorAt(element, keyword, ErrorCode::kUnsupported,
                     "is not supported beside const or enum");
    }
    const size_t length = NumCharacters(value.get_ref<const std::string&>());
    if (schema.contains("minLength") && length < ToCount(schema.at("minLength"))) return false;
    return !schema.contains("maxLength") || length <= ToCount(schema.at("maxLength"));
  }
  if ((TypesOfKeywords(schema) & TypeOf(value)) != 0) {
    return ErrorAt(element, "", ErrorCode::kUnsupported,
                   "keywords about objects or arrays are not supported beside a const or enum of "
                   "them");
  }
  return true;
}

Result<RepeatCount> SchemaCompiler::Lengths(const Conjunction& conjunction, const char* min,
                                            const char* max) const {
  RepeatCount count;
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

Result<ExprId> SchemaCompiler::String(const Conjunction& conjunction) {
  KVGATE_TRY(const RepeatCount length, Lengths(conjunction, "minLength", "maxLength"));
  if (length.min > length.max) return grammar_.Nothing();
  const Element* owner = nullptr;
  const char* keyword = nullptr;
  std::string pattern;
  for (const Element& element : conjunction.elements) {
    for (const char* const name : {"pattern", "format"}) {
      if (!element.schema->contains(name)) continue;
      const auto& text = element.schema->at(name).get_ref<const std::string&>();
      const bool is_format = std::string_view(name) == "format";
      const std::optional<std::string_view> known =
          is_format ? PatternOfFormat(text) : std::optional<std::string_view>(text);
      if (!known) {
        return ErrorAt(element, name, ErrorCode::kUnsupported,
                       fmt::format("is '{}', which is not supported; supported are {}",
                                   text.substr(0, 100), FormatNames()));
      }
      if (owner != nullptr && pattern != *known) {
        return ErrorAt(element, name, ErrorCode::kUnsupported,
                       "is the second pattern or format of one string; one is supported");
      }
      owner = &element;
      keyword = name;
      pattern = *known;
    }
  }
  if (owner == nullptr) return parts_.String(length);
  const PatternLimits limits = {.rules_max = limits_.rules_max};
  const auto placed = [&](Error error) {
    return ErrorAt(*owner, keyword, error.code, error.detail);
  };
  const Result<Pattern> parsed = ParsePattern(pattern, limits);
  if (!parsed) return placed(parsed.error());
  Result<ExprId> made = AddPattern(grammar_, parts_, *parsed, length, limits);
  if (!made) return placed(made.error());
  return *made;
}

Result<uint64_t> SchemaCompiler::MultipleOf(const Conjunction& conjunction) const {
  uint64_t multiple = 0;
  for (const Element& element : conjunction.elements) {
    if (!element.schema->contains("multipleOf")) continue;
    const double number = element.schema->at("multipleOf").get<double>();
    if (number < 1 || number > static_cast<double>(kMultipleMax) || number != std::floor(number)) {
      return ErrorAt(element, "multipleOf", ErrorCode::kUnsupported,
                     fmt::format("must be an integer from 1 to {}", kMultipleMax));
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
  NumberRange range;
  const Element* owner = nullptr;              // of a bound
  std::optional<std::pair<Json, bool>> lower;  // the tightest, and whether it is exclusive
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
  }
  if (lower) range.lower = ToBound(lower->first, lower->second);
  if (upper) range.upper = ToBound(upper->first, upper->second);
  KVGATE_TRY(const uint64_t multiple, MultipleOf(conjunction));
  if (only_integers || multiple > 0) {
    if (!range.lower && !range.upper && multiple <= 1) return parts_.AnyInteger();
    Result<ExprId> made = AddIntegerRange(grammar_, range, std::max<uint64_t>(multiple, 1));
    if (!made && owner != nullptr) {
      return ErrorAt(*owner, "", made.error().code, made.error().detail);
    }
    return made;
  }
  if (!range.lower && !range.upper) return parts_.AnyNumber();
  return AddNumberRange(grammar_, range);
}

}  // namespace kvgate::grammar
