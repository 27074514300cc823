#include "engine/text/jinja/evaluator.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "engine/text/jinja/parse/lexer.h"

namespace kvgate::jinja {

using runtime::Loop;
using runtime::Scope;
using syntax::StatementKind;
using syntax::Symbol;
using value::MakeBool;
using value::MakeFailed;
using value::MakeInt;
using value::Tag;
using value::TextBuilder;
using value::Value;

void Scope::Set(value::Heap& heap, Symbol name, const Value& value) {
  if (Value* known = Find(name); known != nullptr) {
    *known = value;
    return;
  }
  if (size == capacity) {
    const uint32_t larger = capacity == 0 ? 4 : 2 * capacity;
    auto* moved = heap.NewArray<runtime::Binding>(larger);
    std::copy_n(bindings, size, moved);
    bindings = moved;
    capacity = larger;
  }
  bindings[size++] = {name, value};
}

void Evaluator::Define(std::string_view name, const Value& value) {
  const Symbol symbol = parsed_.symbols.Find(name);
  if (symbol < parsed_.symbols.size()) base_->Set(heap(), symbol, value);
}

const value::String* Evaluator::Run() {
  const parse::SymbolTable& symbols = parsed_.symbols;
  caller_ = symbols.Find("caller");
  loop_ = symbols.Find("loop");
  kwargs_ = symbols.Find("kwargs");
  varargs_ = symbols.Find("varargs");
  Scope* globals = base_;
  // The caller's variables take precedence over globals of the same name.
  for (Symbol symbol = 0; symbol < symbols.size(); ++symbol) {
    const runtime::FunctionSpec* function = builtins::FindGlobal(symbols.NameOf(symbol));
    if (function == nullptr || globals->Find(symbol) != nullptr) continue;
    Value value;
    value.tag = Tag::kFunction;
    value.function = function;
    globals->Set(heap(), symbol, value);
  }
  top_ = NewScope(base_);
  Enter(parsed_.body, *top_);
  TextBuilder out(heap());
  if (Execute(parsed_.body, *top_, out) != Flow::kNext || !Charge(0)) return nullptr;
  return out.Build();
}

syntax::Failure Evaluator::TakeFailure(std::string_view source) {
  return parse::MakeFailure(failure_.kind, source, failure_offset_, std::move(failure_.message));
}

void Evaluator::Enter(const syntax::ScopedBody& body, Scope& scope) {
  for (const Symbol name : body.unset) scope.Set(heap(), name, Value());
}

Evaluator::Flow Evaluator::Execute(const syntax::Body& body, Scope& scope, TextBuilder& out) {
  for (const syntax::StatementPtr& statement : body.statements) {
    const Flow flow = ExecuteOne(*statement, scope, out);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::ExecuteOne(const syntax::Statement& statement, Scope& scope,
                                      TextBuilder& out) {
  if (!Charge(1)) return Flow::kFailed;
  offset_ = statement.offset;
  switch (statement.kind) {
    case StatementKind::kText: {
      const value::String& text = *static_cast<const syntax::TextStatement&>(statement).text;
      out.Append(text);
      return ChargeBytes(text.size) ? Flow::kNext : Flow::kFailed;
    }
    case StatementKind::kPrint:
      return Print(*static_cast<const syntax::PrintStatement&>(statement).value, scope, out);
    case StatementKind::kFor:
      return ExecuteFor(static_cast<const syntax::ForStatement&>(statement), scope, out);
    case StatementKind::kIf:
      return ExecuteIf(static_cast<const syntax::IfStatement&>(statement), scope, out);
    case StatementKind::kSet:
      return ExecuteSet(static_cast<const syntax::SetStatement&>(statement), scope);
    case StatementKind::kSetBlock:
      return ExecuteSetBlock(static_cast<const syntax::SetBlockStatement&>(statement), scope);
    case StatementKind::kMacro: {
      const auto& node = static_cast<const syntax::MacroStatement&>(statement);
      scope.Set(heap(), node.name, MakeMacro(node.macro, scope));
      return Flow::kNext;
    }
    case StatementKind::kCallBlock:
      return ExecuteCallBlock(static_cast<const syntax::CallBlockStatement&>(statement), scope,
                              out);
    case StatementKind::kFilterBlock:
      return ExecuteFilterBlock(static_cast<const syntax::FilterBlockStatement&>(statement), scope,
                                out);
    case StatementKind::kWith:
      return ExecuteWith(static_cast<const syntax::WithStatement&>(statement), scope, out);
    case StatementKind::kScope: {
      const auto& node = static_cast<const syntax::ScopeStatement&>(statement);
      return ExecuteScoped(node.body, node.sees_outer ? scope : *top_, out);
    }
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::ExecuteScoped(const syntax::ScopedBody& body, Scope& parent,
                                         TextBuilder& out) {
  const Level level(*this);
  if (!level.ok()) return Flow::kFailed;
  Scope* scope = NewScope(&parent);
  Enter(body, *scope);
  return Execute(body, *scope, out);
}

Evaluator::Flow Evaluator::Print(const syntax::Expr& expr, Scope& scope, TextBuilder& out) {
  const Value value = Evaluate(expr, scope);
  if (value.failed()) return Flow::kFailed;
  const size_t before = out.size();
  if (!AppendText(value, out)) return Flow::kFailed;
  return ChargeBytes(out.size() - before) ? Flow::kNext : Flow::kFailed;
}

Evaluator::Flow Evaluator::ExecuteIf(const syntax::IfStatement& statement, Scope& scope,
                                     TextBuilder& out) {
  const Level level(*this);
  if (!level.ok()) return Flow::kFailed;
  for (const auto& [test, body] : statement.branches) {
    const Value value = Evaluate(*test, scope);
    if (value.failed()) return Flow::kFailed;
    if (value::IsTrue(value)) return Execute(body, scope, out);
  }
  return Execute(statement.otherwise, scope, out);
}

// --- for --------------------------------------------------------------------------------------

Evaluator::Flow Evaluator::ExecuteFor(const syntax::ForStatement& statement, Scope& scope,
                                      TextBuilder& out) {
  const Level level(*this);
  if (!level.ok()) return Flow::kFailed;
  const Value iterable = Evaluate(*statement.iterable, scope);
  if (iterable.failed()) return Flow::kFailed;
  offset_ = statement.offset;
  const auto items = Iterate(iterable);
  if (!items) return Flow::kFailed;
  auto* loop = heap().New<Loop>(Loop{.statement = &statement, .scope = &scope, .items = *items});
  loop->filters = statement.test != nullptr;
  return RunLoop(*loop, out);
}

Evaluator::Flow Evaluator::RunLoop(Loop& loop, TextBuilder& out) {
  const syntax::ForStatement& statement = *loop.statement;
  Value self;
  self.tag = Tag::kLoop;
  self.loop = &loop;
  Scope* scope = nullptr;
  bool completed = false;
  for (;;) {
    Value item = loop.peeked;
    if (item.missing()) item = NextItem(loop);
    if (item.failed()) return Flow::kFailed;
    if (item.missing()) break;
    loop.peeked = Value();
    ++loop.index0;
    loop.previous = loop.current;
    loop.current = item;
    if (scope == nullptr || scope->captured) scope = NewScope(loop.scope);
    scope->size = 0;
    Enter(statement.body, *scope);
    scope->Set(heap(), loop_, self);
    if (!Charge(1) || !Assign(statement.target, item, *scope)) return Flow::kFailed;
    const Flow flow = Execute(statement.body, *scope, out);
    if (flow == Flow::kFailed) return flow;
    if (flow == Flow::kBreak) break;
    completed = completed || flow == Flow::kNext;
  }
  // Differs from Python: the else runs unless some item reached the end of the body, so it also
  // runs if every item ended in `break` or `continue`.
  if (completed || statement.otherwise.statements.empty()) return Flow::kNext;
  return ExecuteScoped(statement.otherwise, *loop.scope, out);
}

Value Evaluator::NextItem(Loop& loop) {
  while (loop.next < loop.items.size()) {
    const Value item = loop.items[loop.next++];
    if (!loop.filters) return item;
    if (!Charge(1)) return MakeFailed();
    Scope* scope = NewScope(loop.scope);
    if (!Assign(loop.statement->target, item, *scope)) return MakeFailed();
    const Value test = Evaluate(*loop.statement->test, *scope);
    if (test.failed()) return test;
    if (value::IsTrue(test)) return item;
  }
  return {};
}

Value Evaluator::Peek(Loop& loop) {
  if (loop.peeked.missing()) loop.peeked = NextItem(loop);
  return loop.peeked;
}

Value Evaluator::LoopLength(Loop& loop) {
  if (loop.filters) {
    std::vector<Value> left;
    for (Value item = NextItem(loop); !item.missing(); item = NextItem(loop)) {
      if (item.failed()) return item;
      left.push_back(item);
    }
    loop.items = value::MakeList(heap(), left).list->values();
    loop.next = 0;
    loop.filters = false;
  }
  const int64_t seen = loop.index0 + 1 + (loop.peeked.missing() ? 0 : 1);
  const auto left = static_cast<int64_t>(loop.items.size() - loop.next);
  return MakeInt(seen + left);
}

Value Evaluator::CallLoop(Loop& loop, const runtime::Arguments& arguments) {
  if (!loop.statement->recursive) {
    return Fail("The loop must have the 'recursive' marker to be called recursively.");
  }
  if (arguments.positional.size() != 1 || !arguments.keywords.empty()) {
    return Fail("loop() takes exactly one argument");
  }
  const Level level(*this);
  if (!level.ok()) return MakeFailed();
  const auto items = Iterate(arguments.positional[0]);
  if (!items) return MakeFailed();
  auto* inner =
      heap().New<Loop>(Loop{.statement = loop.statement, .scope = loop.scope, .items = *items});
  inner->filters = loop.statement->test != nullptr;
  inner->depth0 = loop.depth0 + 1;
  TextBuilder out(heap());
  if (RunLoop(*inner, out) == Flow::kFailed) return MakeFailed();
  return Finish(out);
}

// --- assignments ------------------------------------------------------------------------------

bool Evaluator::Assign(const syntax::Target& target, const Value& value, Scope& scope) {
  if (!target.is_tuple && target.attribute.missing()) {
    scope.Set(heap(), target.name, value);
    return true;
  }
  offset_ = target.offset;
  if (!target.is_tuple) {
    const syntax::NameExpr name(target.offset, target.name);
    const Value object = EvaluateName(name, scope);
    if (object.failed()) return false;
    if (!object.is(Tag::kNamespace)) {
      return !Fail("cannot assign attribute on non-namespace object").failed();
    }
    object.name_space->attributes->Set(heap(), target.attribute, value);
    return true;
  }
  const auto items = Iterate(value);
  if (!items) return false;
  if (items->size() != target.parts.size()) {
    Fail(items->size() < target.parts.size()
             ? fmt::format("not enough values to unpack (expected {}, got {})", target.parts.size(),
                           items->size())
             : fmt::format("too many values to unpack (expected {})", target.parts.size()));
    return false;
  }
  for (size_t i = 0; i < items->size(); ++i) {
    if (!Charge(1) || !Assign(target.parts[i], (*items)[i], scope)) return false;
  }
  return true;
}

Evaluator::Flow Evaluator::ExecuteSet(const syntax::SetStatement& statement, Scope& scope) {
  const Value value = Evaluate(*statement.value, scope);
  if (value.failed() || !Assign(statement.target, value, scope)) return Flow::kFailed;
  return Flow::kNext;
}

Evaluator::Flow Evaluator::ExecuteSetBlock(const syntax::SetBlockStatement& statement,
                                           Scope& scope) {
  TextBuilder body(heap());
  const Flow flow = ExecuteScoped(statement.body, scope, body);
  if (flow != Flow::kNext) return flow;
  Value value = Finish(body);
  if (statement.filter != nullptr && !value.failed()) {
    value = EvaluateApply(static_cast<const syntax::ApplyExpr&>(*statement.filter), scope, value);
  }
  if (value.failed() || !Assign(statement.target, value, scope)) return Flow::kFailed;
  return Flow::kNext;
}

Evaluator::Flow Evaluator::ExecuteFilterBlock(const syntax::FilterBlockStatement& statement,
                                              Scope& scope, TextBuilder& out) {
  const Level level(*this);
  if (!level.ok()) return Flow::kFailed;
  TextBuilder body(heap());
  Scope* inner = NewScope(&scope);
  Enter(statement.body, *inner);
  const Flow flow = Execute(statement.body, *inner, body);
  if (flow != Flow::kNext) return flow;
  Value value = Finish(body);
  if (value.failed()) return Flow::kFailed;
  value = EvaluateApply(static_cast<const syntax::ApplyExpr&>(*statement.filter), *inner, value);
  if (value.failed() || !AppendText(value, out)) return Flow::kFailed;
  return Flow::kNext;
}

Evaluator::Flow Evaluator::ExecuteWith(const syntax::WithStatement& statement, Scope& scope,
                                       TextBuilder& out) {
  const Level level(*this);
  if (!level.ok()) return Flow::kFailed;
  Scope* inner = NewScope(&scope);
  Enter(statement.body, *inner);
  for (const auto& [target, expr] : statement.values) {
    const Value value = Evaluate(*expr, scope);
    if (value.failed() || !Assign(target, value, *inner)) return Flow::kFailed;
  }
  return Execute(statement.body, *inner, out);
}

Value Evaluator::MakeMacro(const syntax::MacroDefinition& definition, Scope& scope) {
  for (Scope* s = &scope; s != nullptr && !s->captured; s = s->parent) s->captured = true;
  Value value;
  value.tag = Tag::kMacro;
  value.macro = heap().New<runtime::Macro>(&definition, &scope);
  return value;
}

Evaluator::Flow Evaluator::ExecuteCallBlock(const syntax::CallBlockStatement& statement,
                                            Scope& scope, TextBuilder& out) {
  const Level level(*this);
  if (!level.ok()) return Flow::kFailed;
  const Value caller = MakeMacro(statement.caller, scope);
  const Value value = EvaluateCall(*statement.call, scope, caller);
  if (value.failed() || !AppendText(value, out)) return Flow::kFailed;
  return Flow::kNext;
}

// --- loop and macro attributes ----------------------------------------------------------------

Value LoopAttribute(runtime::Runtime& runtime, Loop& loop, std::string_view name) {
  auto& evaluator = static_cast<Evaluator&>(runtime);
  if (name == "index0") return MakeInt(loop.index0);
  if (name == "index") return MakeInt(loop.index0 + 1);
  if (name == "first") return MakeBool(loop.index0 == 0);
  if (name == "depth") return MakeInt(loop.depth0 + 1);
  if (name == "depth0") return MakeInt(loop.depth0);
  if (name == "last" || name == "nextitem") {
    const Value next = evaluator.Peek(loop);
    if (next.failed()) return next;
    if (name == "last") return MakeBool(next.missing());
    if (!next.missing()) return next;
    return value::MakeUndefined(
        runtime.heap(), {value::UndefinedInfo::Kind::kHint, "there is no next item", "loop"});
  }
  if (name == "previtem") {
    if (loop.index0 > 0) return loop.previous;
    return value::MakeUndefined(
        runtime.heap(), {value::UndefinedInfo::Kind::kHint, "there is no previous item", "loop"});
  }
  if (name == "length" || name == "revindex" || name == "revindex0") {
    const Value length = evaluator.LoopLength(loop);
    if (length.failed() || name == "length") return length;
    return MakeInt(length.integer - loop.index0 - (name == "revindex0" ? 1 : 0));
  }
  const runtime::FunctionSpec* method = builtins::FindGlobal(name == "cycle"     ? "loop.cycle"
                                                             : name == "changed" ? "loop.changed"
                                                                                 : "loop.");
  if (method == nullptr) return {};
  Value self;
  self.tag = Tag::kLoop;
  self.loop = &loop;
  Value value;
  value.tag = Tag::kMethod;
  value.method = runtime.heap().New<value::Method>(self, method);
  return value;
}

Value MacroAttribute(runtime::Runtime& runtime, const runtime::Macro& macro,
                     std::string_view name) {
  const syntax::MacroDefinition& definition = *macro.definition;
  if (name == "name") {
    return definition.name.empty() ? value::MakeNone() : runtime.MakeText(definition.name);
  }
  if (name == "arguments") {
    std::vector<Value> names;
    for (const std::string_view parameter : definition.parameter_names) {
      names.push_back(runtime.MakeText(parameter));
    }
    return value::MakeList(runtime.heap(), names, value::ListKind::kTuple);
  }
  if (name == "catch_kwargs") return MakeBool(definition.reads_kwargs);
  if (name == "catch_varargs") return MakeBool(definition.reads_varargs);
  if (name == "caller") return MakeBool(definition.reads_caller);
  return {};
}

}  // namespace kvgate::jinja
