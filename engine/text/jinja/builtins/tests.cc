// Tests: the right-hand side of `is`.
#include <fmt/format.h>

#include "engine/text/jinja/builtins/builtins.h"

namespace kvgate::jinja::builtins {

using runtime::Arguments;
using runtime::Runtime;
using syntax::CompareOperator;
using value::MakeBool;
using value::Tag;
using value::Value;

namespace {

template <bool (*kHolds)(const Value&)>
Value Test(Runtime&, const Value& value, const Arguments&) {
  return MakeBool(kHolds(value));
}

bool IsDefined(const Value& value) { return !value.is(Tag::kUndefined); }
bool IsUndefined(const Value& value) { return value.is(Tag::kUndefined); }
bool IsNone(const Value& value) { return value.is(Tag::kNone); }
bool IsBoolean(const Value& value) { return value.is(Tag::kBool); }
bool IsTrueItself(const Value& value) { return value.is(Tag::kBool) && value.boolean; }
bool IsFalseItself(const Value& value) { return value.is(Tag::kBool) && !value.boolean; }
bool IsInteger(const Value& value) { return value.is(Tag::kInt) || value.is(Tag::kBigInteger); }
bool IsFloat(const Value& value) { return value.is(Tag::kFloat); }
bool IsNumber(const Value& value) { return value.is_number() || value.is(Tag::kBigInteger); }
bool IsText(const Value& value) { return value.is_string(); }
bool IsMapping(const Value& value) { return value.is(Tag::kDict); }
bool IsEscaped(const Value& value) { return value.is_string() && value.markup; }
bool IsSequence(const Value& value) {
  switch (value.tag) {
    case Tag::kString:
    case Tag::kDict:
    case Tag::kRange:
    case Tag::kUndefined:
      return true;
    case Tag::kList:
      return value.list->kind <= value::ListKind::kGroup;
    default:
      return false;
  }
}
bool IsCallable(const Value& value) {
  switch (value.tag) {
    case Tag::kFunction:
    case Tag::kMethod:
    case Tag::kMacro:
    case Tag::kLoop:
    case Tag::kJoiner:
    case Tag::kUndefined:
      return true;
    default:
      return false;
  }
}

template <CompareOperator kOperator>
Value Compares(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto result = runtime.Compare(kOperator, value, arguments.positional[0]);
  return result ? MakeBool(*result) : value::MakeFailed();
}

Value SameAs(Runtime&, const Value& value, const Arguments& arguments) {
  const Value& other = arguments.positional[0];
  if (value.tag != other.tag) return MakeBool(false);
  switch (value.tag) {
    case Tag::kNone:
    case Tag::kBool:
    case Tag::kInt:
    case Tag::kFloat:
    case Tag::kString:
      return MakeBool(value::Equal(value, other));
    default:
      return MakeBool(value.integer == other.integer);  // true if it is the same object
  }
}

template <bool kOdd>
Value Parity(Runtime& runtime, const Value& value, const Arguments&) {
  const Value rest = runtime.Binary(syntax::BinaryOperator::kModulo, value, value::MakeInt(2));
  if (rest.failed()) return rest;
  return MakeBool(value::Equal(rest, value::MakeInt(kOdd ? 1 : 0)));
}

Value DivisibleBy(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Value rest =
      runtime.Binary(syntax::BinaryOperator::kModulo, value, arguments.positional[0]);
  return rest.failed() ? rest : MakeBool(value::Equal(rest, value::MakeInt(0)));
}

// str(value).isupper(), str(value).islower()
template <bool kUpper>
Value IsCase(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const value::String* text = runtime.ToText(value);
  if (text == nullptr) return value::MakeFailed();
  const runtime::FunctionSpec* method = FindStringMethod(kUpper ? "isupper" : "islower");
  return method->call(runtime, value::MakeString(text), arguments);
}

template <bool kFilter>
Value IsNamed(Runtime& runtime, const Value& value, const Arguments&) {
  // Python looks it up in a dict, so an unhashable value fails.
  if (!value::IsHashable(value)) {
    return runtime.Fail(fmt::format("unhashable type: '{}'", value::TypeName(value)));
  }
  if (!value.is_string()) return MakeBool(false);
  return MakeBool((kFilter ? FindFilter(value.text()) : FindTest(value.text())) != nullptr);
}

constexpr runtime::FunctionSpec kTests[] = {
    {"defined", "", Test<IsDefined>},
    {"undefined", "", Test<IsUndefined>},
    {"none", "", Test<IsNone>},
    {"boolean", "", Test<IsBoolean>},
    {"true", "", Test<IsTrueItself>},
    {"false", "", Test<IsFalseItself>},
    {"integer", "", Test<IsInteger>},
    {"float", "", Test<IsFloat>},
    {"number", "", Test<IsNumber>},
    {"string", "", Test<IsText>},
    {"mapping", "", Test<IsMapping>},
    {"sequence", "", Test<IsSequence>},
    {"iterable", "", Test<value::IsIterable>},
    {"callable", "", Test<IsCallable>},
    {"escaped", "", Test<IsEscaped>},
    {"sameas", "other", SameAs},
    {"odd", "", Parity<true>},
    {"even", "", Parity<false>},
    {"divisibleby", "num", DivisibleBy},
    {"lower", "", IsCase<false>},
    {"upper", "", IsCase<true>},
    {"filter", "", IsNamed<true>},
    {"test", "", IsNamed<false>},
    {"in", "seq", Compares<CompareOperator::kIn>},
    {"==", "b", Compares<CompareOperator::kEqual>},
    {"eq", "b", Compares<CompareOperator::kEqual>},
    {"equalto", "b", Compares<CompareOperator::kEqual>},
    {"!=", "b", Compares<CompareOperator::kNotEqual>},
    {"ne", "b", Compares<CompareOperator::kNotEqual>},
    {">", "b", Compares<CompareOperator::kGreater>},
    {"gt", "b", Compares<CompareOperator::kGreater>},
    {"greaterthan", "b", Compares<CompareOperator::kGreater>},
    {">=", "b", Compares<CompareOperator::kGreaterEqual>},
    {"ge", "b", Compares<CompareOperator::kGreaterEqual>},
    {"<", "b", Compares<CompareOperator::kLess>},
    {"lt", "b", Compares<CompareOperator::kLess>},
    {"lessthan", "b", Compares<CompareOperator::kLess>},
    {"<=", "b", Compares<CompareOperator::kLessEqual>},
    {"le", "b", Compares<CompareOperator::kLessEqual>},
};

}  // namespace

std::span<const runtime::FunctionSpec> AllTests() { return kTests; }

}  // namespace kvgate::jinja::builtins
