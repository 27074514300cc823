// The syntax tree of a template: built once by the parser, then immutable and shared by threads.
//
// Names are numbered per template (Symbol); literals are Values in the template's own heap. `depth`
// bounds the recursion of the evaluation.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/jinja/value/value.h"

namespace kvgate::jinja::syntax {

using Symbol = uint32_t;

enum class ExprKind : uint8_t {
  kLiteral,
  kName,
  kTuple,
  kList,
  kDict,
  kNot,
  kNegative,
  kPositive,
  kAnd,
  kOr,
  kBinary,
  kConcat,
  kCompare,
  kConditional,
  kAttribute,
  kItem,
  kSlice,
  kCall,
  kFilter,
  kTest,
};

struct Expr {
  Expr(ExprKind k, size_t at) : kind(k), offset(static_cast<uint32_t>(at)) {}
  virtual ~Expr() = default;
  ExprKind kind;
  uint32_t offset;  // in the source, for error messages
  int depth = 1;
};
using ExprPtr = std::unique_ptr<Expr>;

struct LiteralExpr final : Expr {
  LiteralExpr(size_t at, value::Value v) : Expr(ExprKind::kLiteral, at), value(v) {}
  value::Value value;
};
struct NameExpr final : Expr {
  NameExpr(size_t at, Symbol n) : Expr(ExprKind::kName, at), name(n) {}
  Symbol name;
};
struct SequenceExpr final : Expr {  // kTuple, kList, kConcat
  using Expr::Expr;
  std::vector<ExprPtr> items;
};
struct DictExpr final : Expr {
  explicit DictExpr(size_t at) : Expr(ExprKind::kDict, at) {}
  std::vector<std::pair<ExprPtr, ExprPtr>> items;
};
struct UnaryExpr final : Expr {  // kNot, kNegative, kPositive
  using Expr::Expr;
  ExprPtr operand;
};
enum class BinaryOperator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
};
struct BinaryExpr final : Expr {  // kAnd, kOr, kBinary
  using Expr::Expr;
  BinaryOperator op = BinaryOperator::kAdd;
  ExprPtr left;
  ExprPtr right;
};
enum class CompareOperator : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};
struct CompareExpr final : Expr {
  explicit CompareExpr(size_t at) : Expr(ExprKind::kCompare, at) {}
  ExprPtr first;
  std::vector<std::pair<CompareOperator, ExprPtr>> rest;
};
struct ConditionalExpr final : Expr {
  explicit ConditionalExpr(size_t at) : Expr(ExprKind::kConditional, at) {}
  ExprPtr test;
  ExprPtr yes;
  ExprPtr no;  // may be null
};
struct AttributeExpr final : Expr {
  AttributeExpr(size_t at, value::Value n) : Expr(ExprKind::kAttribute, at), name(n) {}
  ExprPtr object;
  value::Value name;
};
struct ItemExpr final : Expr {
  explicit ItemExpr(size_t at) : Expr(ExprKind::kItem, at) {}
  ExprPtr object;
  ExprPtr index;
};
struct SliceExpr final : Expr {
  explicit SliceExpr(size_t at) : Expr(ExprKind::kSlice, at) {}
  ExprPtr object;
  ExprPtr start;  // each may be null
  ExprPtr stop;
  ExprPtr step;
};
struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<value::Value, ExprPtr>> keywords;
  ExprPtr more_positional;  // *x; may be null
  ExprPtr more_keywords;    // **x; may be null
};
struct CallExpr final : Expr {
  explicit CallExpr(size_t at) : Expr(ExprKind::kCall, at) {}
  ExprPtr callee;
  CallArguments arguments;
};
struct ApplyExpr final : Expr {  // kFilter, kTest
  using Expr::Expr;
  ExprPtr input;  // null: the first filter of a filter block
  value::Value name;
  const runtime::FunctionSpec* function = nullptr;  // null: unknown; fails when evaluated
  CallArguments arguments;
};

enum class StatementKind : uint8_t {
  kText,
  kPrint,
  kFor,
  kIf,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kScope,
  kBreak,
  kContinue,
};

struct Statement {
  Statement(StatementKind k, size_t at) : kind(k), offset(static_cast<uint32_t>(at)) {}
  virtual ~Statement() = default;
  StatementKind kind;
  uint32_t offset;
};
using StatementPtr = std::unique_ptr<Statement>;
struct Body {
  std::vector<StatementPtr> statements;
};
// A body that runs in a scope of its own. `unset`: names that it sets before it reads them and that
// no enclosing scope has; they hide the caller's variables from the beginning, as in Jinja2.
struct ScopedBody : Body {
  std::vector<Symbol> unset;
};

struct TextStatement final : Statement {
  TextStatement(size_t at, const value::String* t) : Statement(StatementKind::kText, at), text(t) {}
  const value::String* text;
};
struct PrintStatement final : Statement {
  PrintStatement(size_t at, ExprPtr e)
      : Statement(StatementKind::kPrint, at), value(std::move(e)) {}
  ExprPtr value;
};
// A name, an attribute of a namespace, or a tuple of targets.
struct Target {
  Symbol name = 0;
  value::Value attribute = {};  // missing: the name itself
  std::vector<Target> parts;
  bool is_tuple = false;
  uint32_t offset = 0;
};
struct ForStatement final : Statement {
  explicit ForStatement(size_t at) : Statement(StatementKind::kFor, at) {}
  Target target;
  ExprPtr iterable;
  ExprPtr test;  // may be null
  bool recursive = false;
  ScopedBody body;
  ScopedBody otherwise;
};
struct IfStatement final : Statement {
  explicit IfStatement(size_t at) : Statement(StatementKind::kIf, at) {}
  std::vector<std::pair<ExprPtr, Body>> branches;
  Body otherwise;
};
struct SetStatement final : Statement {
  explicit SetStatement(size_t at) : Statement(StatementKind::kSet, at) {}
  Target target;
  ExprPtr value;
};
struct SetBlockStatement final : Statement {
  explicit SetBlockStatement(size_t at) : Statement(StatementKind::kSetBlock, at) {}
  Target target;
  ExprPtr filter;  // may be null
  ScopedBody body;
};
struct MacroDefinition {
  std::string_view name;  // empty: a call block's caller
  std::vector<Symbol> parameters;
  std::vector<std::string_view> parameter_names;
  std::vector<ExprPtr> defaults;  // for the last parameters
  bool reads_caller = false;
  bool reads_kwargs = false;
  bool reads_varargs = false;
  ScopedBody body;
};
struct MacroStatement final : Statement {
  explicit MacroStatement(size_t at) : Statement(StatementKind::kMacro, at) {}
  Symbol name = 0;
  MacroDefinition macro;
};
struct CallBlockStatement final : Statement {
  explicit CallBlockStatement(size_t at) : Statement(StatementKind::kCallBlock, at) {}
  std::unique_ptr<CallExpr> call;
  MacroDefinition caller;
};
struct FilterBlockStatement final : Statement {
  explicit FilterBlockStatement(size_t at) : Statement(StatementKind::kFilterBlock, at) {}
  ExprPtr filter;
  ScopedBody body;
};
struct WithStatement final : Statement {
  explicit WithStatement(size_t at) : Statement(StatementKind::kWith, at) {}
  std::vector<std::pair<Target, ExprPtr>> values;
  ScopedBody body;
};
struct ScopeStatement final : Statement {  // generation, block, autoescape
  explicit ScopeStatement(size_t at) : Statement(StatementKind::kScope, at) {}
  bool sees_outer = true;  // false: an unscoped block, which sees only top-level variables
  ScopedBody body;
};
struct JumpStatement final : Statement {  // kBreak, kContinue
  using Statement::Statement;
};

}  // namespace kvgate::jinja::syntax
