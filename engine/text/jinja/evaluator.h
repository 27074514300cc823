// Evaluator: evaluates a template's syntax tree. Each rendering has its own.
#pragma once

#include <optional>
#include <vector>

#include "engine/text/jinja/parse/parser.h"
#include "engine/text/jinja/runtime/loop.h"
#include "engine/text/jinja/runtime/runtime.h"

namespace kvgate::jinja {

class Evaluator final : public runtime::Runtime {
 public:
  Evaluator(const Options& options, const parse::ParsedTemplate& parsed)
      : Runtime(options), parsed_(parsed), base_(NewScope(nullptr)) {}

  // Sets a variable of the rendering. Names that the template does not use are ignored.
  void Define(std::string_view name, const value::Value& value);
  // Returns the rendered text, or null if it failed. Must be called only once.
  const value::String* Run();
  // Returns why and where it failed.
  syntax::Failure TakeFailure(std::string_view source);

  value::Value Call(const value::Value& callee, const runtime::Arguments& arguments) override;

  // --- loops: implementation of `loop` and its attributes ---
  // Returns the next item that passes the loop's filter, missing at the end, or failed.
  value::Value NextItem(runtime::Loop& loop);
  value::Value Peek(runtime::Loop& loop);
  // Returns the total number of items. Tests the remaining ones if the loop has a filter.
  value::Value LoopLength(runtime::Loop& loop);
  value::Value CallLoop(runtime::Loop& loop, const runtime::Arguments& arguments);

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue, kFailed };

  // Counts one level of evaluation depth during its lifetime.
  class Level {
   public:
    explicit Level(Evaluator& evaluator) : evaluator_(evaluator) { --evaluator_.depth_left_; }
    ~Level() { ++evaluator_.depth_left_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    bool ok() const {
      return evaluator_.depth_left_ > 0 ||
             !evaluator_.Fail("the template calls itself too deeply", syntax::Failure::Kind::kLimit)
                  .failed();
    }

   private:
    Evaluator& evaluator_;
  };

  runtime::Scope* NewScope(runtime::Scope* parent) {
    return heap().New<runtime::Scope>(runtime::Scope{.parent = parent});
  }
  void Enter(const syntax::ScopedBody& body, runtime::Scope& scope);

  // --- statements (evaluator.cc) ---
  Flow Execute(const syntax::Body& body, runtime::Scope& scope, value::TextBuilder& out);
  Flow ExecuteOne(const syntax::Statement& statement, runtime::Scope& scope,
                  value::TextBuilder& out);
  Flow ExecuteScoped(const syntax::ScopedBody& body, runtime::Scope& parent,
                     value::TextBuilder& out);
  Flow ExecuteFor(const syntax::ForStatement& statement, runtime::Scope& scope,
                  value::TextBuilder& out);
  Flow RunLoop(runtime::Loop& loop, value::TextBuilder& out);
  Flow ExecuteIf(const syntax::IfStatement& statement, runtime::Scope& scope,
                 value::TextBuilder& out);
  Flow ExecuteSet(const syntax::SetStatement& statement, runtime::Scope& scope);
  Flow ExecuteSetBlock(const syntax::SetBlockStatement& statement, runtime::Scope& scope);
  Flow ExecuteCallBlock(const syntax::CallBlockStatement& statement, runtime::Scope& scope,
                        value::TextBuilder& out);
  Flow ExecuteFilterBlock(const syntax::FilterBlockStatement& statement, runtime::Scope& scope,
                          value::TextBuilder& out);
  Flow ExecuteWith(const syntax::WithStatement& statement, runtime::Scope& scope,
                   value::TextBuilder& out);
  Flow Print(const syntax::Expr& expr, runtime::Scope& scope, value::TextBuilder& out);
  bool Assign(const syntax::Target& target, const value::Value& value, runtime::Scope& scope);
  value::Value MakeMacro(const syntax::MacroDefinition& definition, runtime::Scope& scope);

  // --- expressions (expressions.cc) ---
  value::Value Evaluate(const syntax::Expr& expr, runtime::Scope& scope);
  value::Value EvaluateInner(const syntax::Expr& expr, runtime::Scope& scope);
  value::Value EvaluateName(const syntax::NameExpr& expr, runtime::Scope& scope);
  value::Value EvaluateSequence(const syntax::SequenceExpr& expr, value::ListKind kind,
                                runtime::Scope& scope);
  value::Value EvaluateDict(const syntax::DictExpr& expr, runtime::Scope& scope);
  value::Value EvaluateUnary(const syntax::UnaryExpr& expr, runtime::Scope& scope);
  value::Value EvaluateLogic(const syntax::BinaryExpr& expr, runtime::Scope& scope);
  value::Value EvaluateBinary(const syntax::BinaryExpr& expr, runtime::Scope& scope);
  value::Value EvaluateConcat(const syntax::SequenceExpr& expr, runtime::Scope& scope);
  value::Value EvaluateCompare(const syntax::CompareExpr& expr, runtime::Scope& scope);
  value::Value EvaluateConditional(const syntax::ConditionalExpr& expr, runtime::Scope& scope);
  value::Value EvaluateAccess(const syntax::Expr& expr, runtime::Scope& scope);
  value::Value EvaluateSlice(const syntax::SliceExpr& expr, runtime::Scope& scope);
  value::Value EvaluateCall(const syntax::CallExpr& expr, runtime::Scope& scope,
                            const value::Value& caller);
  // `input`: the value for an expression without an input of its own; missing if there is none.
  value::Value EvaluateApply(const syntax::ApplyExpr& expr, runtime::Scope& scope,
                             const value::Value& input);

  // The values of a call's arguments; this object owns them.
  struct Evaluated {
    std::vector<value::Value> positional;
    std::vector<runtime::Keyword> keywords;
    runtime::Arguments view() const { return {positional, keywords}; }
  };
  bool EvaluateArguments(const syntax::CallArguments& arguments, runtime::Scope& scope,
                         Evaluated& values);
  bool SpreadKeywords(const value::Value& more, Evaluated& values);

  value::Value CallMacro(const runtime::Macro& macro, const runtime::Arguments& arguments);
  bool BindParameters(const runtime::Macro& macro, const runtime::Arguments& arguments,
                      runtime::Scope& scope);
  bool BindDefaults(const syntax::MacroDefinition& definition, runtime::Scope& scope);

  const parse::ParsedTemplate& parsed_;
  runtime::Scope* base_;           // the caller's variables and the globals
  runtime::Scope* top_ = nullptr;  // the template's top-level scope
  syntax::Symbol caller_ = 0;
  syntax::Symbol loop_ = 0;
  syntax::Symbol kwargs_ = 0;
  syntax::Symbol varargs_ = 0;
};

}  // namespace kvgate::jinja
