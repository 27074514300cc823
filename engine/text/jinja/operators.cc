// The operators of expressions, with Python's semantics for the types of Value.
#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "engine/text/jinja/builtins/formatting.h"
#include "engine/text/jinja/runtime/runtime.h"

namespace kvgate::jinja {

using runtime::Runtime;
using syntax::BinaryOperator;
using syntax::CompareOperator;
using value::ListKind;
using value::MakeFailed;
using value::MakeFloat;
using value::MakeInt;
using value::Ordering;
using value::Tag;
using value::TypeName;
using value::Value;

namespace {

std::string_view SymbolOf(BinaryOperator op) {
  constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};
  return kSymbols[static_cast<size_t>(op)];
}

bool IsPlainList(const Value& value) {
  return value.is(Tag::kList) && value.list->kind <= ListKind::kGroup;
}

double FloorModulo(double left, double right) {
  double rest = std::fmod(left, right);
  if (rest != 0 && (rest < 0) != (right < 0)) rest += right;
  return rest == 0 ? std::copysign(0.0, right) : rest;
}

double FloorQuotient(double left, double right) {
  const double rest = FloorModulo(left, right);
  const double quotient = (left - rest) / right;
  if (quotient == 0) return std::copysign(0.0, left / right);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

}  // namespace

Value Runtime::FailOperands(std::string_view symbol, const Value& left, const Value& right) {
  if (left.is(Tag::kUndefined)) return FailUndefined(left);
  if (right.is(Tag::kUndefined)) return FailUndefined(right);
  if (left.is(Tag::kBigInteger) || right.is(Tag::kBigInteger)) {
    return Fail("integers past 64 bits cannot be computed with");
  }
  return Fail(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", symbol,
                          TypeName(left), TypeName(right)));
}

// --- numbers ----------------------------------------------------------------------------------

Value Runtime::PowerInteger(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return Fail("0.0 cannot be raised to a negative power");
    return MakeFloat(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  int64_t factor = base;
  bool overflow = false;
  while (exponent > 0 && !overflow) {
    if (exponent & 1) overflow = __builtin_mul_overflow(result, factor, &result);
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(factor, factor, &factor)) overflow = true;
  }
  return overflow ? Fail("the result of ** does not fit in 64 bits") : MakeInt(result);
}

Value Runtime::BinaryInteger(BinaryOperator op, int64_t left, int64_t right) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case BinaryOperator::kAdd:
      overflow = __builtin_add_overflow(left, right, &result);
      break;
    case BinaryOperator::kSubtract:
      overflow = __builtin_sub_overflow(left, right, &result);
      break;
    case BinaryOperator::kMultiply:
      overflow = __builtin_mul_overflow(left, right, &result);
      break;
    case BinaryOperator::kPower:
      return PowerInteger(left, right);
    default: {
      if (right == 0) {
        return Fail(op == BinaryOperator::kDivide ? "division by zero"
                                                  : "integer division or modulo by zero");
      }
      if (op == BinaryOperator::kDivide) {
        return MakeFloat(static_cast<double>(left) / static_cast<double>(right));
      }
      if (right == -1) {  // INT64_MIN / -1 overflows
        if (op == BinaryOperator::kModulo) return MakeInt(0);
        overflow = __builtin_sub_overflow(int64_t{0}, left, &result);
        break;
      }
      const int64_t rest = left % right;
      const bool adjusts = rest != 0 && (rest < 0) != (right < 0);
      if (op == BinaryOperator::kModulo) return MakeInt(adjusts ? rest + right : rest);
      return MakeInt(left / right - (adjusts ? 1 : 0));
    }
  }
  return overflow ? Fail(fmt::format("the result of {} does not fit in 64 bits", SymbolOf(op)))
                  : MakeInt(result);
}

Value Runtime::BinaryFloat(BinaryOperator op, double left, double right) {
  switch (op) {
    case BinaryOperator::kAdd:
      return MakeFloat(left + right);
    case BinaryOperator::kSubtract:
      return MakeFloat(left - right);
    case BinaryOperator::kMultiply:
      return MakeFloat(left * right);
    case BinaryOperator::kPower: {
      if (left == 0 && right < 0) return Fail("0.0 cannot be raised to a negative power");
      if (left < 0 && std::isfinite(left) && std::isfinite(right) && right != std::floor(right)) {
        return Fail("complex numbers are not supported");
      }
      const double result = std::pow(left, right);
      if (std::isinf(result) && std::isfinite(left) && std::isfinite(right)) {
        return Fail("Numerical result out of range");
      }
      return MakeFloat(result);
    }
    default:
      break;
  }
  if (right == 0) return Fail("float division by zero");
  if (op == BinaryOperator::kDivide) return MakeFloat(left / right);
  return MakeFloat(op == BinaryOperator::kModulo ? FloorModulo(left, right)
                                                 : FloorQuotient(left, right));
}

Value Runtime::Negative(const Value& value) {
  if (value.is(Tag::kFloat)) return MakeFloat(-value.number);
  if (value.is_integer()) return BinaryInteger(BinaryOperator::kSubtract, 0, value.as_integer());
  if (value.is(Tag::kUndefined)) return FailUndefined(value);
  return Fail(fmt::format("bad operand type for unary -: '{}'", TypeName(value)));
}

Value Runtime::Positive(const Value& value) {
  if (value.is(Tag::kFloat)) return value;
  if (value.is_integer()) return MakeInt(value.as_integer());
  if (value.is(Tag::kUndefined)) return FailUndefined(value);
  return Fail(fmt::format("bad operand type for unary +: '{}'", TypeName(value)));
}

// --- + and * of sequences ---------------------------------------------------------------------

Value Runtime::Add(const Value& left, const Value& right) {
  if (left.is_string() && right.is_string()) {
    // Markup escapes plain text that is added to it.
    const Value first = right.markup && !left.markup ? builtins::EscapeHtml(*this, left) : left;
    const Value second = left.markup && !right.markup ? builtins::EscapeHtml(*this, right) : right;
    value::TextBuilder builder(heap_, *first.string);
    builder.Append(*second.string);
    if (!ChargeBytes(second.string->size)) return MakeFailed();
    return value::MakeString(builder.Build(), left.markup || right.markup);
  }
  const bool lists = IsPlainList(left) && IsPlainList(right) &&
                     (left.list->kind == ListKind::kList) == (right.list->kind == ListKind::kList);
  if (!lists) return FailOperands("+", left, right);
  const size_t size = left.list->size + right.list->size;
  if (!Charge(static_cast<int64_t>(size / 8)) || !heap_.Reserve(size * sizeof(Value))) {
    Charge(0);
    return MakeFailed();
  }
  Value sum = value::MakeList(
      heap_, {}, left.list->kind == ListKind::kList ? ListKind::kList : ListKind::kTuple);
  sum.list->items = heap_.NewArray<Value>(size);
  sum.list->size = size;
  std::copy_n(left.list->items, left.list->size, sum.list->items);
  std::copy_n(right.list->items, right.list->size, sum.list->items + left.list->size);
  return sum;
}

Value Runtime::RepeatSequence(const Value& sequence, const Value& count) {
  const int64_t times = std::max<int64_t>(count.as_integer(), 0);
  if (sequence.is_string()) {
    const value::String& text = *sequence.string;
    if (text.size != 0 && times > static_cast<int64_t>(INT64_MAX / text.size)) {
      heap_.Reserve(SIZE_MAX);
    } else if (heap_.Reserve(text.size * static_cast<size_t>(times))) {
      if (!ChargeBytes(text.size * static_cast<size_t>(times)) || !Charge(times / 16)) {
        return MakeFailed();
      }
      value::TextBuilder builder(heap_);
      for (int64_t i = 0; i < times && text.size != 0; ++i) builder.Append(text);
      return Finish(builder, sequence.markup);
    }
    Charge(0);
    return MakeFailed();
  }
  const value::List& list = *sequence.list;
  const size_t size = list.size;
  if (size != 0 && times > static_cast<int64_t>(INT64_MAX / (size * sizeof(Value)))) {
    heap_.Reserve(SIZE_MAX);
  }
  if (!heap_.Reserve(size * static_cast<size_t>(times) * sizeof(Value)) ||
      !Charge(static_cast<int64_t>(size) * times / 8)) {
    Charge(0);
    return MakeFailed();
  }
  Value repeated =
      value::MakeList(heap_, {}, list.kind == ListKind::kList ? list.kind : ListKind::kTuple);
  repeated.list->size = size * static_cast<size_t>(times);
  repeated.list->items = heap_.NewArray<Value>(repeated.list->size);
  for (int64_t i = 0; i < times; ++i) {
    std::copy_n(list.items, size, repeated.list->items + static_cast<size_t>(i) * size);
  }
  return repeated;
}

Value Runtime::Binary(BinaryOperator op, const Value& left, const Value& right) {
  if (left.is_integer() && right.is_integer()) {
    return BinaryInteger(op, left.as_integer(), right.as_integer());
  }
  if (left.is_number() && right.is_number()) {
    return BinaryFloat(op, left.as_double(), right.as_double());
  }
  if (op == BinaryOperator::kAdd) return Add(left, right);
  if (op == BinaryOperator::kModulo && left.is_string()) {
    return ChargeBytes(2 * left.string->size) ? builtins::PercentFormat(*this, left, right)
                                              : MakeFailed();
  }
  if (op == BinaryOperator::kMultiply) {
    if ((left.is_string() || IsPlainList(left)) && right.is_integer()) {
      return RepeatSequence(left, right);
    }
    if ((right.is_string() || IsPlainList(right)) && left.is_integer()) {
      return RepeatSequence(right, left);
    }
  }
  return FailOperands(SymbolOf(op), left, right);
}

// --- comparison -------------------------------------------------------------------------------

std::optional<bool> Runtime::Equals(const Value& left, const Value& right) {
  if (left.tag != right.tag && !(left.is_number() && right.is_number())) return false;
  value::ValueWalk walk = StartWalk();
  const bool equal = value::Equal(left, right, walk);
  if (!EndWalk(walk)) return std::nullopt;
  return equal;
}

std::optional<bool> Runtime::OrderedAs(CompareOperator op, const Value& left, const Value& right) {
  value::ValueWalk walk = StartWalk();
  const Ordering ordering = value::Compare(left, right, walk);
  if (!EndWalk(walk)) return std::nullopt;
  switch (ordering) {
    case Ordering::kLess:
      return op == CompareOperator::kLess || op == CompareOperator::kLessEqual;
    case Ordering::kEqual:
      return op == CompareOperator::kLessEqual || op == CompareOperator::kGreaterEqual;
    case Ordering::kGreater:
      return op == CompareOperator::kGreater || op == CompareOperator::kGreaterEqual;
    case Ordering::kUnordered:
      return false;
    case Ordering::kIncomparable:
      break;
  }
  if (left.is(Tag::kUndefined)) return FailUndefined(left), std::nullopt;
  if (right.is(Tag::kUndefined)) return FailUndefined(right), std::nullopt;
  constexpr std::string_view kSymbols[] = {"==", "!=", "<", "<=", ">", ">="};
  Fail(fmt::format("'{}' not supported between instances of '{}' and '{}'",
                   kSymbols[static_cast<size_t>(op)], TypeName(left), TypeName(right)));
  return std::nullopt;
}

std::optional<bool> Runtime::Compare(CompareOperator op, const Value& left, const Value& right) {
  std::optional<bool> result;
  switch (op) {
    case CompareOperator::kEqual:
      return Equals(left, right);
    case CompareOperator::kNotEqual:
      result = Equals(left, right);
      break;
    case CompareOperator::kIn:
      return Contains(right, left);
    case CompareOperator::kNotIn:
      result = Contains(right, left);
      break;
    default:
      return OrderedAs(op, left, right);
  }
  if (result) result = !*result;
  return result;
}

std::optional<bool> Runtime::Contains(const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      Fail(fmt::format("'in <string>' requires string as left operand, not {}", TypeName(item)));
      return std::nullopt;
    }
    if (!ChargeSearch(container.string->size, item.string->size)) return std::nullopt;
    return value::FindText(container.text(), item.text()) != std::string_view::npos;
  }
  if (container.is(Tag::kDict)) {
    if (!value::IsHashable(item)) {
      Fail(fmt::format("unhashable type: '{}'", TypeName(item)));
      return std::nullopt;
    }
    if (!ChargeKey(item)) return std::nullopt;
    return container.dict->Find(item) != nullptr;
  }
  if (container.is(Tag::kRange)) {
    if (!item.is_number()) return false;
    const double number = item.as_double();
    const value::Range& range = *container.range;
    if (number != std::floor(number) || std::abs(number) > 9e18) return false;
    const int64_t whole = item.is_integer() ? item.as_integer() : static_cast<int64_t>(number);
    const bool inside = range.step > 0 ? whole >= range.start && whole < range.stop
                                       : whole <= range.start && whole > range.stop;
    return inside && (whole - range.start) % range.step == 0;
  }
  if (!value::IsIterable(container)) {
    Fail(fmt::format("argument of type '{}' is not iterable", TypeName(container)));
    return std::nullopt;
  }
  const auto items = Iterate(container);
  if (!items) return std::nullopt;
  for (const Value& other : *items) {
    if (!Charge(1)) return std::nullopt;
    const auto equal = Equals(other, item);
    if (!equal || *equal) return equal;
  }
  return false;
}

// Own merge sort, because std::sort may run out of bounds if values cannot be ordered.
bool Runtime::Sort(std::span<Value> keys, std::span<Value> items, bool reverse) {
  std::vector<std::pair<Value, Value>> from;
  for (size_t i = 0; i < keys.size(); ++i) from.emplace_back(keys[i], items[i]);
  std::vector<std::pair<Value, Value>> to(from.size());
  const size_t size = from.size();
  if (!Charge(static_cast<int64_t>(size))) return false;
  for (size_t width = 1; width < size; width *= 2) {
    for (size_t begin = 0; begin < size; begin += 2 * width) {
      const size_t middle = std::min(begin + width, size);
      const size_t end = std::min(begin + 2 * width, size);
      size_t left = begin;
      size_t right = middle;
      for (size_t out = begin; out < end; ++out) {
        bool takes_right = left == middle;
        if (left < middle && right < end) {
          const Value& a = reverse ? from[left].first : from[right].first;
          const Value& b = reverse ? from[right].first : from[left].first;
          const auto less = OrderedAs(CompareOperator::kLess, a, b);
          if (!less || !Charge(1)) return false;
          takes_right = *less;
        }
        to[out] = takes_right ? from[right++] : from[left++];
      }
    }
    std::swap(from, to);
  }
  for (size_t i = 0; i < size; ++i) {
    keys[i] = from[i].first;
    items[i] = from[i].second;
  }
  return true;
}

}  // namespace kvgate::jinja
