// Evaluator: runs a template's tree. One for each rendering.
#pragma once

#include <optional>
#include <vector>

#include "engine/text/jinja/runtime/loop.h"
#include "engine/text/jinja/parse/parser.h"
#include "engine/text/jinja/runtime/runtime.h"

namespace kvgate::jinja {

class Evaluator final : public Runtime {
 public:
  Evaluator(const Options& options, const ParsedTemplate& parsed)
      : Runtime(options), parsed_(parsed), base_(NewScope(nullptr)) {}

  // A variable of the rendering; names that the template does not have are dropped.
  void Define(std::string_view name, const Value& value);
  // What the template writes; null when failed. Once.
  const String* Run();
  // Where and why it failed.
  Failure TakeFailure(std::string_view source);

  Value Call(const Value& callee, const Arguments& arguments) override;

  // --- loops, for `loop` and its attributes ---
  // The next item, tested; missing at the end; failed.
  Value NextItem(Loop& loop);
  Value Peek(Loop& loop);
  // How many items in all: tests those that are left.
  Value LoopLength(Loop& loop);
  Value CallLoop(Loop& loop, const Arguments& arguments);

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue, kFailed };

  // Counts a level of evaluation while it lives.
  class Level {
   public:
    explicit Level(Evaluator& evaluator) : evaluator_(evaluator) { --evaluator_.depth_left_; }
    ~Level() { ++evaluator_.depth_left_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    bool ok() const {
      return evaluator_.depth_left_ > 0 ||
             !evaluator_.Fail("the template calls itself too deeply", Failure::Kind::kLimit)
                  .failed();
    }

   private:
    Evaluator& evaluator_;
  };

  Scope* NewScope(Scope* parent) { return heap().New<Scope>(Scope{.parent = parent}); }
  void Enter(const ScopedBody& body, Scope& scope);

  // --- statements (evaluator.cc) ---
  Flow Execute(const Body& body, Scope& scope, TextBuilder& out);
  Flow ExecuteOne(const Statement& statement, Scope& scope, TextBuilder& out);
  Flow ExecuteScoped(const ScopedBody& body, Scope& parent, TextBuilder& out);
  Flow ExecuteFor(const ForStatement& statement, Scope& scope, TextBuilder& out);
  Flow RunLoop(Loop& loop, TextBuilder& out);
  Flow ExecuteIf(const IfStatement& statement, Scope& scope, TextBuilder& out);
  Flow ExecuteSet(const SetStatement& statement, Scope& scope);
  Flow ExecuteSetBlock(const SetBlockStatement& statement, Scope& scope);
  Flow ExecuteCallBlock(const CallBlockStatement& statement, Scope& scope, TextBuilder& out);
  Flow ExecuteFilterBlock(const FilterBlockStatement& statement, Scope& scope, TextBuilder& out);
  Flow ExecuteWith(const WithStatement& statement, Scope& scope, TextBuilder& out);
  Flow Print(const Expr& expr, Scope& scope, TextBuilder& out);
  bool Assign(const Target& target, const Value& value, Scope& scope);
  Value MakeMacro(const MacroDefinition& definition, Scope& scope);

  // --- expressions (expressions.cc) ---
  Value Evaluate(const Expr& expr, Scope& scope);
  Value EvaluateInner(const Expr& expr, Scope& scope);
  Value EvaluateName(const NameExpr& expr, Scope& scope);
  Value EvaluateSequence(const SequenceExpr& expr, ListKind kind, Scope& scope);
  Value EvaluateDict(const DictExpr& expr, Scope& scope);
  Value EvaluateUnary(const UnaryExpr& expr, Scope& scope);
  Value EvaluateLogic(const BinaryExpr& expr, Scope& scope);
  Value EvaluateBinary(const BinaryExpr& expr, Scope& scope);
  Value EvaluateConcat(const SequenceExpr& expr, Scope& scope);
  Value EvaluateCompare(const CompareExpr& expr, Scope& scope);
  Value EvaluateConditional(const ConditionalExpr& expr, Scope& scope);
  Value EvaluateAccess(const Expr& expr, Scope& scope);
  Value EvaluateSlice(const SliceExpr& expr, Scope& scope);
  Value EvaluateCall(const CallExpr& expr, Scope& scope, const Value& caller);
  // `input`: what comes through where the expression has none of its own.
  Value EvaluateApply(const ApplyExpr& expr, Scope& scope, const Value& input);

  // The values of a call's arguments; they live in this object.
  struct Evaluated {
    std::vector<Value> positional;
    std::vector<Keyword> keywords;
    Arguments view() const { return {positional, keywords}; }
  };
  bool EvaluateArguments(const CallArguments& arguments, Scope& scope, Evaluated& values);
  bool SpreadKeywords(const Value& more, Evaluated& values);

  Value CallMacro(const Macro& macro, const Arguments& arguments);
  bool BindParameters(const Macro& macro, const Arguments& arguments, Scope& scope);
  bool BindDefaults(const MacroDefinition& definition, Scope& scope);

  const ParsedTemplate& parsed_;
  Scope* base_;           // the caller's variables and the globals
  Scope* top_ = nullptr;  // the template's own
  Symbol caller_ = 0;
  Symbol loop_ = 0;
  Symbol kwargs_ = 0;
  Symbol varargs_ = 0;
};

}  // namespace kvgate::jinja
