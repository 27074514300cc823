// Evaluator: expressions and calls.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "engine/text/jinja/evaluator.h"

namespace kvgate::jinja {

using runtime::Scope;
using syntax::BinaryExpr;
using syntax::Expr;
using syntax::ExprKind;
using syntax::SequenceExpr;
using value::ListKind;
using value::MakeFailed;
using value::MakeUndefined;
using value::Tag;
using value::UndefinedInfo;
using value::Value;

Value Evaluator::Evaluate(const Expr& expr, Scope& scope) {
  if (expr.kind == ExprKind::kLiteral) return static_cast<const syntax::LiteralExpr&>(expr).value;
  if (!Charge(1)) return MakeFailed();
  if (expr.kind == ExprKind::kName) {
    return EvaluateName(static_cast<const syntax::NameExpr&>(expr), scope);
  }
  const Level level(*this);
  if (!level.ok()) return MakeFailed();
  return EvaluateInner(expr, scope);
}

Value Evaluator::EvaluateInner(const Expr& expr, Scope& scope) {
  switch (expr.kind) {
    case ExprKind::kTuple:
      return EvaluateSequence(static_cast<const SequenceExpr&>(expr), ListKind::kTuple, scope);
    case ExprKind::kList:
      return EvaluateSequence(static_cast<const SequenceExpr&>(expr), ListKind::kList, scope);
    case ExprKind::kDict:
      return EvaluateDict(static_cast<const syntax::DictExpr&>(expr), scope);
    case ExprKind::kNot:
    case ExprKind::kNegative:
    case ExprKind::kPositive:
      return EvaluateUnary(static_cast<const syntax::UnaryExpr&>(expr), scope);
    case ExprKind::kAnd:
    case ExprKind::kOr:
      return EvaluateLogic(static_cast<const BinaryExpr&>(expr), scope);
    case ExprKind::kBinary:
      return EvaluateBinary(static_cast<const BinaryExpr&>(expr), scope);
    case ExprKind::kConcat:
      return EvaluateConcat(static_cast<const SequenceExpr&>(expr), scope);
    case ExprKind::kCompare:
      return EvaluateCompare(static_cast<const syntax::CompareExpr&>(expr), scope);
    case ExprKind::kConditional:
      return EvaluateConditional(static_cast<const syntax::ConditionalExpr&>(expr), scope);
    case ExprKind::kCall:
      return EvaluateCall(static_cast<const syntax::CallExpr&>(expr), scope, Value());
    case ExprKind::kFilter:
    case ExprKind::kTest:
      return EvaluateApply(static_cast<const syntax::ApplyExpr&>(expr), scope, Value());
    default:
      return EvaluateAccess(expr, scope);
  }
}

Value Evaluator::EvaluateName(const syntax::NameExpr& expr, Scope& scope) {
  for (const Scope* s = &scope; s != nullptr; s = s->parent) {
    const Value* value = s->Find(expr.name);
    if (value == nullptr) continue;
    if (value->missing()) break;
    return *value;
  }
  return MakeUndefined(heap(), {UndefinedInfo::Kind::kName, parsed_.symbols.NameOf(expr.name), {}});
}

Value Evaluator::EvaluateSequence(const SequenceExpr& expr, ListKind kind, Scope& scope) {
  auto* list = heap().New<value::List>();
  list->kind = kind;
  list->items = heap().NewArray<Value>(expr.items.size());
  for (const syntax::ExprPtr& item : expr.items) {
    const Value value = Evaluate(*item, scope);
    if (value.failed()) return value;
    list->items[list->size++] = value;
  }
  return value::MakeList(list);
}

Value Evaluator::EvaluateDict(const syntax::DictExpr& expr, Scope& scope) {
  auto* dict = heap().New<value::Dict>();
  for (const auto& [key_expr, value_expr] : expr.items) {
    const Value key = Evaluate(*key_expr, scope);
    if (key.failed()) return key;
    const Value value = Evaluate(*value_expr, scope);
    if (value.failed()) return value;
    if (!value::IsHashable(key)) {
      offset_ = key_expr->offset;
      return Fail(fmt::format("unhashable type: '{}'", value::TypeName(key)));
    }
    if (!ChargeKey(key)) return MakeFailed();
    dict->Set(heap(), key, value);
  }
  return value::MakeDict(dict);
}

Value Evaluator::EvaluateUnary(const syntax::UnaryExpr& expr, Scope& scope) {
  const Value value = Evaluate(*expr.operand, scope);
  if (value.failed()) return value;
  offset_ = expr.offset;
  if (expr.kind == ExprKind::kNot) return value::MakeBool(!value::IsTrue(value));
  return expr.kind == ExprKind::kNegative ? Negative(value) : Positive(value);
}

Value Evaluator::EvaluateLogic(const BinaryExpr& expr, Scope& scope) {
  const Value left = Evaluate(*expr.left, scope);
  if (left.failed() || value::IsTrue(left) == (expr.kind == ExprKind::kOr)) return left;
  return Evaluate(*expr.right, scope);
}

Value Evaluator::EvaluateBinary(const BinaryExpr& expr, Scope& scope) {
  const Value left = Evaluate(*expr.left, scope);
  if (left.failed()) return left;
  const Value right = Evaluate(*expr.right, scope);
  if (right.failed()) return right;
  offset_ = expr.offset;
  return Binary(expr.op, left, right);
}

Value Evaluator::EvaluateConcat(const SequenceExpr& expr, Scope& scope) {
  Value parts[8];
  const bool few = expr.items.size() <= std::size(parts);
  Value* values = few ? parts : heap().NewArray<Value>(expr.items.size());
  for (size_t i = 0; i < expr.items.size(); ++i) {
    values[i] = Evaluate(*expr.items[i], scope);
    if (values[i].failed()) return values[i];
  }
  offset_ = expr.offset;
  // All operands are evaluated before the first is extended in place.
  const value::String* first = ToText(values[0]);
  if (first == nullptr) return MakeFailed();
  value::TextBuilder builder(heap(), *first);
  for (size_t i = 1; i < expr.items.size(); ++i) {
    if (!AppendText(values[i], builder)) return MakeFailed();
  }
  if (!ChargeBytes(builder.size() - first->size)) return MakeFailed();
  return value::MakeString(builder.Build());
}

Value Evaluator::EvaluateCompare(const syntax::CompareExpr& expr, Scope& scope) {
  Value left = Evaluate(*expr.first, scope);
  if (left.failed()) return left;
  for (const auto& [op, operand] : expr.rest) {
    const Value right = Evaluate(*operand, scope);
    if (right.failed()) return right;
    offset_ = expr.offset;
    const auto result = Compare(op, left, right);
    if (!result) return MakeFailed();
    if (!*result) return value::MakeBool(false);
    left = right;
  }
  return value::MakeBool(true);
}

Value Evaluator::EvaluateConditional(const syntax::ConditionalExpr& expr, Scope& scope) {
  const Value test = Evaluate(*expr.test, scope);
  if (test.failed()) return test;
  if (value::IsTrue(test)) return Evaluate(*expr.yes, scope);
  if (expr.no != nullptr) return Evaluate(*expr.no, scope);
  return MakeUndefined(heap(),
                       {UndefinedInfo::Kind::kHint,
                        "the inline if-expression evaluated to false and no else section was "
                        "defined.",
                        {}});
}

Value Evaluator::EvaluateAccess(const Expr& expr, Scope& scope) {
  if (expr.kind == ExprKind::kSlice) {
    return EvaluateSlice(static_cast<const syntax::SliceExpr&>(expr), scope);
  }
  if (expr.kind == ExprKind::kAttribute) {
    const auto& node = static_cast<const syntax::AttributeExpr&>(expr);
    const Value object = Evaluate(*node.object, scope);
    if (object.failed()) return object;
    offset_ = expr.offset;
    return Attribute(object, node.name);
  }
  const auto& node = static_cast<const syntax::ItemExpr&>(expr);
  const Value object = Evaluate(*node.object, scope);
  if (object.failed()) return object;
  const Value key = Evaluate(*node.index, scope);
  if (key.failed()) return key;
  offset_ = expr.offset;
  return Item(object, key);
}

Value Evaluator::EvaluateSlice(const syntax::SliceExpr& expr, Scope& scope) {
  const Value object = Evaluate(*expr.object, scope);
  if (object.failed()) return object;
  Value bounds[3];
  const Expr* parts[] = {expr.start.get(), expr.stop.get(), expr.step.get()};
  for (size_t i = 0; i < 3; ++i) {
    if (parts[i] != nullptr) bounds[i] = Evaluate(*parts[i], scope);
    if (bounds[i].failed()) return bounds[i];
  }
  offset_ = expr.offset;
  return Slice(object, bounds[0], bounds[1], bounds[2]);
}

// --- calls ------------------------------------------------------------------------------------

bool Evaluator::SpreadKeywords(const Value& more, Evaluated& values) {
  if (!more.is(Tag::kDict)) {
    return !Fail(fmt::format("argument after ** must be a mapping, not {}", value::TypeName(more)))
                .failed();
  }
  for (const value::DictEntry& entry : more.dict->items()) {
    if (!entry.key.is_string()) return !Fail("keywords must be strings").failed();
    for (const runtime::Keyword& keyword : values.keywords) {
      if (keyword.name->view() != entry.key.text()) continue;
      return !Fail(fmt::format("got multiple values for keyword argument '{}'", entry.key.text()))
                  .failed();
    }
    values.keywords.push_back({entry.key.string, entry.value});
    if (!Charge(1 + static_cast<int64_t>(values.keywords.size() / 8))) return false;
  }
  return true;
}

bool Evaluator::EvaluateArguments(const syntax::CallArguments& arguments, Scope& scope,
                                  Evaluated& values) {
  values.positional.reserve(arguments.positional.size());
  for (const syntax::ExprPtr& argument : arguments.positional) {
    values.positional.push_back(Evaluate(*argument, scope));
    if (values.positional.back().failed()) return false;
  }
  if (arguments.more_positional != nullptr) {
    const Value more = Evaluate(*arguments.more_positional, scope);
    if (more.failed()) return false;
    const auto items = Iterate(more);
    if (!items || !Charge(static_cast<int64_t>(items->size()))) return false;
    values.positional.insert(values.positional.end(), items->begin(), items->end());
  }
  for (const auto& [name, argument] : arguments.keywords) {
    values.keywords.push_back({name.string, Evaluate(*argument, scope)});
    if (values.keywords.back().value.failed()) return false;
  }
  if (arguments.more_keywords != nullptr) {
    const Value more = Evaluate(*arguments.more_keywords, scope);
    if (more.failed() || !SpreadKeywords(more, values)) return false;
  }
  return true;
}

Value Evaluator::EvaluateCall(const syntax::CallExpr& expr, Scope& scope, const Value& caller) {
  const Value callee = Evaluate(*expr.callee, scope);
  if (callee.failed()) return callee;
  Evaluated values;
  if (!EvaluateArguments(expr.arguments, scope, values)) return MakeFailed();
  static constexpr value::TextBuffer kBuffer{.data = const_cast<char*>("caller"), .size = 6};
  static const value::String kCaller{
      .buffer = &kBuffer, .begin = 0, .size = 6, .num_characters = 6};
  if (!caller.missing()) values.keywords.push_back({&kCaller, caller});
  offset_ = expr.offset;
  return Call(callee, values.view());
}

Value Evaluator::Call(const Value& callee, const runtime::Arguments& arguments) {
  switch (callee.tag) {
    case Tag::kUndefined:
      return FailUndefined(callee);
    case Tag::kFunction:
      return runtime::CallFunction(*this, *callee.function, Value(), arguments);
    case Tag::kMethod:
      return runtime::CallFunction(*this, *callee.method->function, callee.method->self, arguments);
    case Tag::kMacro:
      return CallMacro(*callee.macro, arguments);
    case Tag::kLoop:
      return CallLoop(*callee.loop, arguments);
    case Tag::kJoiner: {
      if (!arguments.positional.empty()) return Fail("joiner() takes no arguments");
      value::Joiner& joiner = *callee.joiner;
      if (std::exchange(joiner.used, true)) return joiner.separator;
      return value::MakeString(value::EmptyString());
    }
    default:
      return Fail(fmt::format("'{}' object is not callable", value::TypeName(callee)));
  }
}

Value Evaluator::EvaluateApply(const syntax::ApplyExpr& expr, Scope& scope, const Value& input) {
  Value value = input;
  if (expr.input != nullptr) {
    // The filters of a block are nested; the innermost has no input of its own.
    const bool passes_on = !input.missing();
    value = passes_on
                ? EvaluateApply(static_cast<const syntax::ApplyExpr&>(*expr.input), scope, input)
                : Evaluate(*expr.input, scope);
    if (value.failed()) return value;
  }
  if (expr.function == nullptr) {
    offset_ = expr.offset;
    return Fail(fmt::format("No {} named '{}' found.",
                            expr.kind == ExprKind::kFilter ? "filter" : "test", expr.name.text()));
  }
  Evaluated values;
  if (!EvaluateArguments(expr.arguments, scope, values)) return MakeFailed();
  offset_ = expr.offset;
  return runtime::CallFunction(*this, *expr.function, value, values.view());
}

// --- macros -----------------------------------------------------------------------------------

bool Evaluator::BindParameters(const runtime::Macro& macro, const runtime::Arguments& arguments,
                               Scope& scope) {
  const syntax::MacroDefinition& definition = *macro.definition;
  const size_t num_parameters = definition.parameters.size();
  const size_t num_given = std::min(arguments.positional.size(), num_parameters);
  for (size_t i = 0; i < num_given; ++i) {
    scope.Set(heap(), definition.parameters[i], arguments.positional[i]);
  }
  auto* more_keywords = heap().New<value::Dict>();
  Value caller;
  for (const runtime::Keyword& keyword : arguments.keywords) {
    const std::string_view name = keyword.name->view();
    if (!Charge(static_cast<int64_t>(num_parameters / 8)) || !ChargeBytes(2 * name.size())) {
      return false;
    }
    const auto found =
        std::find(definition.parameter_names.begin() + static_cast<ptrdiff_t>(num_given),
                  definition.parameter_names.end(), name);
    if (found != definition.parameter_names.end()) {
      const auto index = static_cast<size_t>(found - definition.parameter_names.begin());
      scope.Set(heap(), definition.parameters[index], keyword.value);
    } else if (definition.reads_caller && name == "caller") {
      caller = keyword.value;
    } else if (definition.reads_kwargs) {
      more_keywords->Set(heap(), value::MakeString(keyword.name), keyword.value);
    } else {
      return !Fail(fmt::format("macro '{}' takes no keyword argument '{}'", definition.name, name))
                  .failed();
    }
  }
  if (definition.reads_kwargs) scope.Set(heap(), kwargs_, value::MakeDict(more_keywords));
  const auto more = arguments.positional.subspan(num_given);
  if (definition.reads_varargs) {
    scope.Set(heap(), varargs_, value::MakeList(heap(), more, ListKind::kTuple));
  } else if (!more.empty()) {
    return !Fail(fmt::format("macro '{}' takes not more than {} argument(s)", definition.name,
                             num_parameters))
                .failed();
  }
  if (definition.reads_caller) {
    if (caller.missing() || caller.is(Tag::kNone)) {
      caller = MakeUndefined(heap(), {UndefinedInfo::Kind::kHint, "No caller defined", {}});
    }
    scope.Set(heap(), caller_, caller);
  }
  return true;
}

// Binds in order, because a default may use earlier parameters.
bool Evaluator::BindDefaults(const syntax::MacroDefinition& definition, Scope& scope) {
  const size_t num_required = definition.parameters.size() - definition.defaults.size();
  for (const syntax::Symbol name : definition.parameters) {
    // Later parameters hide outer variables of the same name.
    if (scope.Find(name) == nullptr) scope.Set(heap(), name, Value());
  }
  for (size_t i = 0; i < definition.parameters.size(); ++i) {
    const syntax::Symbol name = definition.parameters[i];
    if (!scope.Find(name)->missing()) continue;
    Value value;
    if (i >= num_required) {
      value = Evaluate(*definition.defaults[i - num_required], scope);
      if (value.failed()) return false;
    } else {
      value =
          MakeUndefined(heap(), {UndefinedInfo::Kind::kName, definition.parameter_names[i], {}});
    }
    scope.Set(heap(), name, value);
  }
  return true;
}

Value Evaluator::CallMacro(const runtime::Macro& macro, const runtime::Arguments& arguments) {
  const Level level(*this);
  if (!level.ok()) return MakeFailed();
  const syntax::MacroDefinition& definition = *macro.definition;
  Scope* scope = NewScope(macro.scope);
  Enter(definition.body, *scope);
  if (!BindParameters(macro, arguments, *scope) || !BindDefaults(definition, *scope)) {
    return MakeFailed();
  }
  value::TextBuilder out(heap());
  if (Execute(definition.body, *scope, out) != Flow::kNext) return MakeFailed();
  return Finish(out);
}

}  // namespace kvgate::jinja
