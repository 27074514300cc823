// The state of a parse, shared by parser.cc (statements) and expression_parser.cc. Private to them.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/jinja/syntax/limits.h"
#include "engine/text/jinja/parse/parser.h"

namespace kvgate::jinja {

// A null pointer or `false` means that failure() has been set.
class ExpressionParser {
 public:
  ExpressionParser(std::string_view source, Heap& heap, SymbolTable& symbols,
                   std::vector<Token> tokens)
      : source_(source), heap_(heap), symbols_(symbols), tokens_(std::move(tokens)) {}

  Failure& failure() { return failure_; }

 protected:
  // Counts one level of nesting while it lives.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser) : parser_(parser) { ++parser_.nesting_; }
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    bool ok() const {
      return parser_.nesting_ <= kNestingMax || parser_.Fail("the template is nested too deeply");
    }

   private:
    ExpressionParser& parser_;
  };

  const Token& current() const { return tokens_[position_]; }
  const Token& next() const { return tokens_[std::min(position_ + 1, tokens_.size() - 1)]; }
  size_t offset() const { return current().offset; }
  void Skip() {
    if (position_ + 1 < tokens_.size()) ++position_;
  }
  bool Is(TokenKind kind) const { return current().kind == kind; }
  bool IsName(std::string_view name) const { return IsNameToken(current(), name); }
  static bool IsNameToken(const Token& token, std::string_view name) {
    return token.kind == TokenKind::kName && token.text == name;
  }
  bool SkipIf(TokenKind kind);
  bool SkipIfName(std::string_view name);
  bool Expect(TokenKind kind);
  bool ExpectName(std::string_view name);
  // At the current token. Always false; the first failure stays.
  bool Fail(std::string message) { return FailAt(offset(), std::move(message)); }
  bool FailAt(size_t offset, std::string message);
  std::string Describe(const Token& token) const;

  Value Literal(std::string_view text);
  // With the node's depth, from those of its parts.
  ExprPtr Finish(std::unique_ptr<Expr> node, std::initializer_list<const Expr*> parts);
  ExprPtr FinishAll(std::unique_ptr<Expr> node, int deepest);

  ExprPtr ParseExpression(bool with_conditional = true);
  // `end_name`: a name that ends the tuple, beside the end of a tag and ')'.
  ExprPtr ParseTuple(bool with_conditional, std::string_view end_name, bool in_parentheses);
  ExprPtr ParsePrimary();
  bool ParseTarget(bool with_namespace, std::string_view end_name, Target& target);
  // The filters behind `input` (null: of a block), from the current '|' on, or without it.
  ExprPtr ParseFilters(ExprPtr input, bool starts_inline);
  bool ParseArguments(CallArguments& arguments);

  std::string_view source_;
  Heap& heap_;
  SymbolTable& symbols_;
  // Filters and tests that are not known, where that is an error even if they are never reached.
  std::vector<std::pair<size_t, std::string>> unknown_;
  bool soft_ = false;  // inside an if: they are an error only when reached
  int num_loops_ = 0;  // for statements around, of whatever scope

 private:
  ExprPtr ParseConditional();
  ExprPtr ParseOr();
  ExprPtr ParseAnd();
  ExprPtr ParseNot();
  ExprPtr ParseCompare();
  bool ParseCompareOperator(CompareOperator& op);
  ExprPtr ParseSum();
  ExprPtr ParseConcat();
  ExprPtr ParseProduct();
  ExprPtr ParsePower();
  ExprPtr ParseUnary(bool with_filters);
  ExprPtr ParseList();
  ExprPtr ParseDict();
  ExprPtr ParseLiteralStrings();
  ExprPtr ParsePostfix(ExprPtr node);
  ExprPtr ParseFilterExpression(ExprPtr node);
  ExprPtr ParseSubscript(ExprPtr object);
  ExprPtr ParseItem(ExprPtr object);
  bool ParseSlice(SliceExpr& slice);
  ExprPtr ParseCall(ExprPtr callee);
  bool ParseArgument(CallArguments& arguments);
  ExprPtr ParseTest(ExprPtr input);
  bool ParseTestArguments(CallArguments& arguments);
  bool ParseDottedName(std::string& name);
  ExprPtr MakeBinary(ExprKind kind, BinaryOperator op, size_t at, ExprPtr left, ExprPtr right);
  ExprPtr MakeApply(ExprKind kind, size_t at, std::string_view name, ExprPtr input,
                    CallArguments arguments);
  bool ToTarget(const Expr& expression, Target& target);
  bool IsTupleEnd(std::string_view end_name) const;
  static int DeepestOf(const CallArguments& arguments);

  std::vector<Token> tokens_;
  size_t position_ = 0;
  int nesting_ = 0;
  Failure failure_;
  bool failed_ = false;
};

// Finds each scope's `unset` names, and which macros read caller, kwargs and varargs.
void AnalyzeScopes(ScopedBody& body, const SymbolTable& symbols);

}  // namespace kvgate::jinja
