#include "engine/grammar/json_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/grammar/schema_compiler.h"
#include "engine/grammar/schema_exclusion.h"

namespace kvgate::grammar {

Result<ExprId> SchemaCompiler::Compile() {
  const Json* const root = &document_.root();
  KVGATE_TRY(Conjunction whole, Join({&root, 1}));
  const RuleId start = RuleOf(std::move(whole));
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (grammar_.num_rules() > limits_.rules_max) {
      return MakeError(ErrorCode::kTooLarge, "grammar.schema",
                       fmt::format("the schema needs more than {} rules", limits_.rules_max));
    }
    const auto [conjunction, rule] = pending_[i];  // a copy: more may be added
    KVGATE_TRY(const ExprId body, BodyOf(conjunction));
    grammar_.SetBody(rule, body);
  }
  return grammar_.Rule(start);
}

Result<SchemaCompiler::Conjunction> SchemaCompiler::Join(std::span<const Json* const> schemas) {
  Conjunction conjunction;
  for (const Json* const schema : schemas) KVGATE_TRY_VOID(Add(*schema, conjunction));
  return conjunction;
}

// What a schema refers to comes before its own keywords, so that properties of a base are first.
Result<void> SchemaCompiler::Add(const Json& schema, Conjunction& conjunction) {
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
  KVGATE_TRY_VOID(document_.CheckKeywords(schema));
  const size_t own = elements.size();
  elements.push_back({.schema = &schema});
  if (schema.contains("$ref")) {
    KVGATE_TRY(const Json* target, document_.Resolve(schema));
    KVGATE_TRY_VOID(Add(*target, conjunction));
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
  rules_.emplace(conjunction, rule);
  pending_.emplace_back(std::move(conjunction), rule);
  return rule;
}

Result<ExprId> SchemaCompiler::BodyOfChoice(const Conjunction& conjunction, size_t index,
                                            const char* keyword) {
  const Json& schema = *conjunction.elements[index].schema;
  const bool is_one = std::string_view(keyword) == "oneOf";
  if (is_one) KVGATE_TRY_VOID(CheckDisjoint(conjunction, index));
  std::vector<ExprId> alternatives;
  for (size_t i = 0; i < schema.at(keyword).size(); ++i) {
    KVGATE_TRY(const Json* alternative, document_.Child(schema, keyword, i));
    Conjunction longer = conjunction;
    (is_one ? longer.elements[index].one_done : longer.elements[index].any_done) = true;
    KVGATE_TRY_VOID(Add(*alternative, longer));
    alternatives.push_back(grammar_.Rule(RuleOf(std::move(longer))));
  }
  return grammar_.Choice(alternatives);
}

// Of oneOf exactly one may hold, which a grammar cannot count: they must rule each other out.
Result<void> SchemaCompiler::CheckDisjoint(const Conjunction& conjunction, size_t index) {
  const Json& schema = *conjunction.elements[index].schema;
  const bool alone =
      std::all_of(conjunction.elements.begin(), conjunction.elements.end(),
                  [](const Element& element) { return TypesOfKeywords(*element.schema) == 0; });
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
      KVGATE_TRY(const bool excluded,
                 Excludes(document_, {.written = *written, .read = *read, .alone = alone}));
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

unsigned SchemaCompiler::TypesOf(const Conjunction& conjunction) const {
  unsigned types = kAnyType;
  unsigned implied = 0;
  bool named = false;
  for (const Element& element : conjunction.elements) {
    if (const std::optional<unsigned> own = NamedTypes(*element.schema)) {
      types &= *own;
      named = true;
    }
    implied |= TypesOfKeywords(*element.schema);
  }
  return !named && implied != 0 ? implied : types;
}

Result<ExprId> SchemaCompiler::BodyOf(const Conjunction& conjunction) {
  if (conjunction.impossible) return grammar_.Nothing();
  for (size_t i = 0; i < conjunction.elements.size(); ++i) {
    const Element& element = conjunction.elements[i];
    if (!element.any_done && element.schema->contains("anyOf")) {
      return BodyOfChoice(conjunction, i, "anyOf");
    }
    if (!element.one_done && element.schema->contains("oneOf")) {
      return BodyOfChoice(conjunction, i, "oneOf");
    }
  }
  unsigned types = TypesOf(conjunction);
  if (HasValues(conjunction)) return Values(conjunction, types);
  if (types == kAnyType) return parts_.AnyValue();
  std::vector<ExprId> alternatives;
  if (types & kObject) {
    KVGATE_TRY(const ExprId object, Object(conjunction));
    alternatives.push_back(object);
  }
  if (types & kArray) {
    KVGATE_TRY(const ExprId array, Array(conjunction));
    alternatives.push_back(array);
  }
  if (types & kString) {
    KVGATE_TRY(const ExprId string, String(conjunction));
    alternatives.push_back(string);
  }
  if (types & (kInteger | kFraction)) {
    KVGATE_TRY(const ExprId number, Number(conjunction, (types & kFraction) == 0));
    alternatives.push_back(number);
  }
  if (types & kBoolean) alternatives.push_back(parts_.Boolean());
  if (types & kNull) alternatives.push_back(parts_.Null());
  return grammar_.Choice(alternatives);
}

Result<ExprId> AddJsonSchema(Grammar& grammar, std::string_view schema,
                             const SchemaLimits& limits) {
  KVGATE_TRY(SchemaDocument document, SchemaDocument::Parse(schema, limits));
  return SchemaCompiler(grammar, document, limits).Compile();
}

Result<Grammar> CompileJsonSchema(std::string_view schema, const SchemaLimits& limits) {
  Grammar grammar;
  KVGATE_TRY(const ExprId value, AddJsonSchema(grammar, schema, limits));
  const RuleId root = grammar.AddRule("root");
  grammar.SetBody(root, value);
  grammar.SetRoot(root);
  if (!Analyze(grammar).productive[value.value]) {
    return MakeError(ErrorCode::kInvalidArgument, "grammar.schema",
                     "no value that we could write meets the schema");
  }
  return grammar;
}

Grammar AnyJsonObject() {
  Grammar grammar;
  JsonParts parts(grammar);
  const ExprId object = parts.AnyObject();
  const RuleId root = grammar.AddRule("root");
  grammar.SetBody(root, object);
  grammar.SetRoot(root);
  return grammar;
}

}  // namespace kvgate::grammar
