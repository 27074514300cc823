// The parser's state, shared by parser.cc (statements) and expression_parser.cc, and private to
// them.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/jinja/parse/parser.h"
#include "engine/text/jinja/syntax/limits.h"

namespace kvgate::jinja::parse {

// All functions return null or false on error, after setting failure().
class ExpressionParser {
 public:
  ExpressionParser(std::string_view source, value::Heap& heap, SymbolTable& symbols,
                   std::vector<syntax::Token> tokens)
      : source_(source), heap_(heap), symbols_(symbols), tokens_(std::move(tokens)) {}

  syntax::Failure& failure() { return failure_; }

 protected:
  // Counts one level of nesting during its lifetime.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser) : parser_(parser) { ++parser_.nesting_; }
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    bool ok() const {
      return parser_.nesting_ <= syntax::kNestingMax ||
             parser_.Fail("the template is nested too deeply");
    }

   private:
    ExpressionParser& parser_;
  };

  const syntax::Token& current() const { return tokens_[position_]; }
  const syntax::Token& next() const { return tokens_[std::min(position_ + 1, tokens_.size() - 1)]; }
  size_t offset() const { return current().offset; }
  void Skip() {
    if (position_ + 1 < tokens_.size()) ++position_;
  }
  bool Is(syntax::TokenKind kind) const { return current().kind == kind; }
  bool IsName(std::string_view name) const { return IsNameToken(current(), name); }
  static bool IsNameToken(const syntax::Token& token, std::string_view name) {
    return token.kind == syntax::TokenKind::kName && token.text == name;
  }
  bool SkipIf(syntax::TokenKind kind);
  bool SkipIfName(std::string_view name);
  bool Expect(syntax::TokenKind kind);
  bool ExpectName(std::string_view name);
  // Fails at the current token. Always returns false; only the first failure is kept.
  bool Fail(std::string message) { return FailAt(offset(), std::move(message)); }
  bool FailAt(size_t offset, std::string message);
  std::string Describe(const syntax::Token& token) const;

  value::Value Literal(std::string_view text);
  // Sets the node's depth from the depths of its parts.
  syntax::ExprPtr Finish(std::unique_ptr<syntax::Expr> node,
                         std::initializer_list<const syntax::Expr*> parts);
  syntax::ExprPtr FinishAll(std::unique_ptr<syntax::Expr> node, int deepest);

  syntax::ExprPtr ParseExpression(bool with_conditional = true);
  // `end_name`: a name that ends the tuple, besides ')' and the end of a tag.
  syntax::ExprPtr ParseTuple(bool with_conditional, std::string_view end_name, bool in_parentheses);
  syntax::ExprPtr ParsePrimary();
  bool ParseTarget(bool with_namespace, std::string_view end_name, syntax::Target& target);
  // Parses filters from the current '|' on. `input` null: filters of a block. `starts_inline`: no
  // leading '|'.
  syntax::ExprPtr ParseFilters(syntax::ExprPtr input, bool starts_inline);
  bool ParseArguments(syntax::CallArguments& arguments);

  std::string_view source_;
  value::Heap& heap_;
  SymbolTable& symbols_;
  // Unknown filters and tests that are an error even if they are never evaluated.
  std::vector<std::pair<size_t, std::string>> unknown_;
  bool soft_ = false;  // inside an if: unknown ones fail only when evaluated
  int num_loops_ = 0;  // enclosing for statements, in any scope

 private:
  syntax::ExprPtr ParseConditional();
  syntax::ExprPtr ParseOr();
  syntax::ExprPtr ParseAnd();
  syntax::ExprPtr ParseNot();
  syntax::ExprPtr ParseCompare();
  bool ParseCompareOperator(syntax::CompareOperator& op);
  syntax::ExprPtr ParseSum();
  syntax::ExprPtr ParseConcat();
  syntax::ExprPtr ParseProduct();
  syntax::ExprPtr ParsePower();
  syntax::ExprPtr ParseUnary(bool with_filters);
  syntax::ExprPtr ParseList();
  syntax::ExprPtr ParseDict();
  syntax::ExprPtr ParseLiteralStrings();
  syntax::ExprPtr ParsePostfix(syntax::ExprPtr node);
  syntax::ExprPtr ParseFilterExpression(syntax::ExprPtr node);
  syntax::ExprPtr ParseSubscript(syntax::ExprPtr object);
  syntax::ExprPtr ParseItem(syntax::ExprPtr object);
  bool ParseSlice(syntax::SliceExpr& slice);
  syntax::ExprPtr ParseCall(syntax::ExprPtr callee);
  bool ParseArgument(syntax::CallArguments& arguments);
  syntax::ExprPtr ParseTest(syntax::ExprPtr input);
  bool ParseTestArguments(syntax::CallArguments& arguments);
  bool ParseDottedName(std::string& name);
  syntax::ExprPtr MakeBinary(syntax::ExprKind kind, syntax::BinaryOperator op, size_t at,
                             syntax::ExprPtr left, syntax::ExprPtr right);
  syntax::ExprPtr MakeApply(syntax::ExprKind kind, size_t at, std::string_view name,
                            syntax::ExprPtr input, syntax::CallArguments arguments);
  bool ToTarget(const syntax::Expr& expression, syntax::Target& target);
  bool IsTupleEnd(std::string_view end_name) const;
  static int DeepestOf(const syntax::CallArguments& arguments);

  std::vector<syntax::Token> tokens_;
  size_t position_ = 0;
  int nesting_ = 0;
  syntax::Failure failure_;
  bool failed_ = false;
};

// Sets the `unset` names of each scope, and which macros read caller, kwargs and varargs.
void AnalyzeScopes(syntax::ScopedBody& body, const SymbolTable& symbols);

}  // namespace kvgate::jinja::parse
