// SchemaCompiler: the arguments of a call, as a JSON object or as single properties in a format
// that is not JSON.
#include <algorithm>
#include <utility>

#include "engine/text/grammar/schema/schema_compiler.h"

namespace kvgate::grammar::schema {

using rules::ExprId;

namespace {

// Readers of such formats take a property as text if the schema's own "properties" declare it a
// string.
bool IsReadAsText(const Json& root, const std::string& name) {
  if (!root.is_object() || !root.contains("properties")) return false;
  const Json& properties = root.at("properties");
  if (!properties.contains(name) || !properties.at(name).is_object()) return false;
  const Json type = properties.at(name).value("type", Json());
  return type == "string" ||
         (type.is_array() && std::find(type.begin(), type.end(), Json("string")) != type.end());
}

constexpr uint64_t kPairSteps = 50;

bool IsPlainName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

}  // namespace

Result<ExprId> SchemaCompiler::CompileArguments(const PairForm* form) {
  const Json* const root = &document_.root();
  KVGATE_TRY(Conjunction whole, Join({&root, 1}));
  ExprId made = {};
  if (form == nullptr) {
    root_ = RuleOf(std::move(whole));
    made = grammar_.Rule(*root_);
  } else {
    KVGATE_TRY(made, Pairs(whole, *form));
  }
  KVGATE_TRY_VOID(CompilePending());
  return made;
}

Result<ExprId> SchemaCompiler::Pairs(const Conjunction& conjunction, const PairForm& form) {
  if (conjunction.impossible) return grammar_.Nothing();
  const auto pairs = [&](const Conjunction& longer) { return Pairs(longer, form); };
  KVGATE_TRY(const std::optional<ExprId> choice, ChoiceOf(conjunction, pairs));
  if (choice) return *choice;
  KVGATE_TRY(const unsigned types, TypesOf(conjunction));
  if ((types & kObject) == 0) return grammar_.Nothing();
  KVGATE_TRY(const std::vector<Property> properties, Properties(conjunction));
  ExprId first = grammar_.Empty();
  ExprId later = first;
  for (size_t i = properties.size(); i-- > 0;) {
    const Property& property = properties[i];
    if (form.plain_names && !IsPlainName(property.name)) {
      if (!property.required) continue;
      return ErrorAt(conjunction.elements.front(), "required", ErrorCode::kUnsupported,
                     "has a name that this model's calls cannot write");
    }
    KVGATE_TRY(const ExprId value, PairValue(property, form));
    const ExprId pair =
        grammar_.Sequence({grammar_.Literal(form.before_key + property.name + form.behind_key),
                           value, grammar_.Literal(form.behind_value)});
    const ExprId with = grammar_.Sequence({pair, later});
    const ExprId behind = grammar_.Sequence({grammar_.Literal(form.between), with});
    const auto as_rule = [&](ExprId body) {
      const rules::RuleId rule = grammar_.AddRule("pairs");
      grammar_.SetBody(rule, body);
      return grammar_.Rule(rule);
    };
    first = as_rule(property.required ? with : grammar_.Choice({with, first}));
    later = as_rule(property.required ? behind : grammar_.Choice({behind, later}));
  }
  return first;
}

Result<ExprId> SchemaCompiler::PairValue(const Property& property, const PairForm& form) {
  if (form.closing.empty() || !IsReadAsText(document_.root(), property.name)) {
    return grammar_.Rule(property.value);
  }
  const Conjunction value = *conjunctions_.at(property.value.value);  // a copy: the map may grow
  KVGATE_TRY_VOID(Charge(value, kPairSteps));
  Result<ExprId> text = PlainText(value, form);
  if (text || !limits_.is_relaxed) return text;
  return PlainText({}, form);
}

// A raw string up to the closing mark.
Result<ExprId> SchemaCompiler::PlainText(const Conjunction& conjunction, const PairForm& form) {
  if (conjunction.impossible) return grammar_.Nothing();
  const auto text = [&](const Conjunction& longer) { return PlainText(longer, form); };
  KVGATE_TRY(const std::optional<ExprId> choice, ChoiceOf(conjunction, text));
  if (choice) return *choice;
  if (HasValues(conjunction)) {
    KVGATE_TRY(const std::vector<const Json*> values, NamedValues(conjunction, kString));
    std::vector<ExprId> texts;
    for (const Json* const value : values) {
      const auto& plain = value->get_ref<const std::string&>();
      if (plain.find(form.closing) == std::string::npos) texts.push_back(grammar_.Literal(plain));
    }
    return grammar_.Choice(texts);
  }
  KVGATE_TRY(std::vector<rules::TextCondition> conditions, TextConditions(conjunction));
  KVGATE_TRY(const rules::RepeatCount length, Lengths(conjunction, "minLength", "maxLength"));
  KVGATE_TRY(rules::Pattern closing, rules::ParsePattern(form.closing, {}));
  conditions.push_back({.pattern = std::move(closing), .negated = true});
  const Result<rules::CharDfa> dfa = MakeTextDfa(conditions);
  if (!dfa) return TooManyStates(conjunction, dfa.error());
  const Result<ExprId> made = rules::AddTexts(
      grammar_, parts_, *dfa, {.length = length, .spelling = rules::Spelling::kPlain});
  if (!made) return TooManyStates(conjunction, made.error());
  return *made;
}

}  // namespace kvgate::grammar::schema
