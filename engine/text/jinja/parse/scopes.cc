// Name resolution before execution, as in Jinja2's compiler (idtracking.py). A scope that sets a
// name before it reads it hides the caller's variable of that name from the beginning, unless the
// name is set only in some branches of an if.
#include <algorithm>
#include <set>

#include "engine/text/jinja/parse/parser_state.h"

namespace kvgate::jinja::parse {

using syntax::Expr;
using syntax::ExprKind;
using syntax::ExprPtr;
using syntax::IfStatement;
using syntax::SetBlockStatement;
using syntax::SetStatement;
using syntax::Statement;
using syntax::StatementKind;
using syntax::StatementPtr;
using syntax::Symbol;
using syntax::Target;

namespace {

using Names = std::set<Symbol>;

struct Symbols {
  const Symbols* parent = nullptr;  // the enclosing scope
  const Symbols* base = nullptr;    // for a branch: the same scope before the branch
  Names known = {};                 // read or set here
  Names unset = {};                 // set here before any read
  Names stored = {};

  bool KnowsHere(Symbol name) const {
    return known.count(name) != 0 || (base != nullptr && base->KnowsHere(name));
  }
  bool StoresHere(Symbol name) const {
    return stored.count(name) != 0 || (base != nullptr && base->StoresHere(name));
  }
  bool Knows(Symbol name) const {
    return KnowsHere(name) || (parent != nullptr && parent->Knows(name));
  }
  void Load(Symbol name) {
    if (!Knows(name)) known.insert(name);
  }
  void Store(Symbol name) {
    stored.insert(name);
    if (KnowsHere(name)) return;
    if (parent == nullptr || !parent->Knows(name)) unset.insert(name);
    known.insert(name);
  }
  void Declare(Symbol name) {
    stored.insert(name);
    known.insert(name);
    unset.erase(name);
  }
  Symbols Branch() const { return {.parent = parent, .base = this}; }
  // Merges one of several branches. It may not have run, so its names do not become `unset`.
  void Merge(const Symbols& branch) {
    known.insert(branch.known.begin(), branch.known.end());
    stored.insert(branch.stored.begin(), branch.stored.end());
  }
};

class Analyzer {
 public:
  explicit Analyzer(const SymbolTable& symbols)
      : caller_(symbols.Find("caller")),
        kwargs_(symbols.Find("kwargs")),
        varargs_(symbols.Find("varargs")) {}

  void VisitScope(syntax::ScopedBody& body, Symbols& symbols) {
    for (const StatementPtr& statement : body.statements) Collect(*statement, symbols);
    body.unset.assign(symbols.unset.begin(), symbols.unset.end());
    for (const StatementPtr& statement : body.statements) Enter(*statement, symbols);
  }

 private:
  static void CollectTarget(const Target& target, bool as_parameter, Symbols& symbols) {
    for (const Target& part : target.parts) CollectTarget(part, as_parameter, symbols);
    if (target.is_tuple) return;
    if (!target.attribute.missing()) {
      symbols.Load(target.name);
    } else if (as_parameter) {
      symbols.Declare(target.name);
    } else {
      symbols.Store(target.name);
    }
  }

  template <typename Visit>
  static void VisitArguments(const syntax::CallArguments& arguments, const Visit& visit) {
    for (const ExprPtr& argument : arguments.positional) visit(argument.get());
    for (const auto& [name, argument] : arguments.keywords) visit(argument.get());
    visit(arguments.more_positional.get());
    visit(arguments.more_keywords.get());
  }

  // Calls visit(const Expr*) for each part, including null ones.
  template <typename Visit>
  static void VisitParts(const Expr& expr, const Visit& visit) {
    switch (expr.kind) {
      case ExprKind::kLiteral:
      case ExprKind::kName:
        break;
      case ExprKind::kTuple:
      case ExprKind::kList:
      case ExprKind::kConcat:
        for (const ExprPtr& item : static_cast<const syntax::SequenceExpr&>(expr).items)
          visit(item.get());
        break;
      case ExprKind::kDict:
        for (const auto& [key, value] : static_cast<const syntax::DictExpr&>(expr).items) {
          visit(key.get());
          visit(value.get());
        }
        break;
      case ExprKind::kNot:
      case ExprKind::kNegative:
      case ExprKind::kPositive:
        visit(static_cast<const syntax::UnaryExpr&>(expr).operand.get());
        break;
      case ExprKind::kAnd:
      case ExprKind::kOr:
      case ExprKind::kBinary:
        visit(static_cast<const syntax::BinaryExpr&>(expr).left.get());
        visit(static_cast<const syntax::BinaryExpr&>(expr).right.get());
        break;
      case ExprKind::kCompare:
        visit(static_cast<const syntax::CompareExpr&>(expr).first.get());
        for (const auto& [op, operand] : static_cast<const syntax::CompareExpr&>(expr).rest) {
          visit(operand.get());
        }
        break;
      default:
        VisitPartsOfAccess(expr, visit);
    }
  }
  template <typename Visit>
  static void VisitPartsOfAccess(const Expr& expr, const Visit& visit) {
    switch (expr.kind) {
      case ExprKind::kConditional: {
        const auto& node = static_cast<const syntax::ConditionalExpr&>(expr);
        for (const ExprPtr* part : {&node.test, &node.yes, &node.no}) visit(part->get());
        break;
      }
      case ExprKind::kAttribute:
        visit(static_cast<const syntax::AttributeExpr&>(expr).object.get());
        break;
      case ExprKind::kItem:
        visit(static_cast<const syntax::ItemExpr&>(expr).object.get());
        visit(static_cast<const syntax::ItemExpr&>(expr).index.get());
        break;
      case ExprKind::kSlice: {
        const auto& node = static_cast<const syntax::SliceExpr&>(expr);
        for (const ExprPtr* part : {&node.object, &node.start, &node.stop, &node.step}) {
          visit(part->get());
        }
        break;
      }
      case ExprKind::kCall:
        visit(static_cast<const syntax::CallExpr&>(expr).callee.get());
        VisitArguments(static_cast<const syntax::CallExpr&>(expr).arguments, visit);
        break;
      default:  // kFilter, kTest
        visit(static_cast<const syntax::ApplyExpr&>(expr).input.get());
        VisitArguments(static_cast<const syntax::ApplyExpr&>(expr).arguments, visit);
    }
  }

  static void CollectExpr(const Expr* expr, Symbols& symbols) {
    if (expr == nullptr) return;
    if (expr->kind == ExprKind::kName)
      symbols.Load(static_cast<const syntax::NameExpr*>(expr)->name);
    VisitParts(*expr, [&](const Expr* part) { CollectExpr(part, symbols); });
  }

  void CollectIf(const IfStatement& statement, size_t branch, Symbols& symbols) {
    CollectExpr(statement.branches[branch].first.get(), symbols);
    Symbols body = symbols.Branch();
    Symbols elifs = symbols.Branch();
    Symbols otherwise = symbols.Branch();
    CollectBody(statement.branches[branch].second, body);
    // Each elif is treated as an if nested in the else before it.
    if (branch == 0) {
      for (size_t i = 1; i < statement.branches.size(); ++i) CollectIf(statement, i, elifs);
      CollectBody(statement.otherwise, otherwise);
    }
    for (const Symbols* part : {&body, &elifs, &otherwise}) symbols.Merge(*part);
  }

  void CollectBody(const syntax::Body& body, Symbols& symbols) {
    for (const StatementPtr& statement : body.statements) Collect(*statement, symbols);
  }

  // Collects the names that a statement reads and sets in its own scope.
  void Collect(const Statement& statement, Symbols& symbols) {
    switch (statement.kind) {
      case StatementKind::kPrint:
        CollectExpr(static_cast<const syntax::PrintStatement&>(statement).value.get(), symbols);
        break;
      case StatementKind::kFor:
        CollectExpr(static_cast<const syntax::ForStatement&>(statement).iterable.get(), symbols);
        break;
      case StatementKind::kIf:
        CollectIf(static_cast<const IfStatement&>(statement), 0, symbols);
        break;
      case StatementKind::kSet:
        CollectExpr(static_cast<const SetStatement&>(statement).value.get(), symbols);
        CollectTarget(static_cast<const SetStatement&>(statement).target, false, symbols);
        break;
      case StatementKind::kSetBlock:
        CollectTarget(static_cast<const SetBlockStatement&>(statement).target, false, symbols);
        break;
      case StatementKind::kMacro:
        symbols.Store(static_cast<const syntax::MacroStatement&>(statement).name);
        break;
      case StatementKind::kCallBlock:
        CollectExpr(static_cast<const syntax::CallBlockStatement&>(statement).call.get(), symbols);
        break;
      case StatementKind::kFilterBlock:
        CollectExpr(static_cast<const syntax::FilterBlockStatement&>(statement).filter.get(),
                    symbols);
        break;
      case StatementKind::kWith:
        for (const auto& [target, value] :
             static_cast<const syntax::WithStatement&>(statement).values) {
          CollectExpr(value.get(), symbols);
        }
        break;
      default:
        break;
    }
  }

  // Returns true if the first use of `name` in the body, including nested scopes, is a read.
  bool Reads(const syntax::Body& body, Symbol name) {
    bool reads = false;
    bool decided = false;
    for (const StatementPtr& statement : body.statements) {
      FirstUse(*statement, name, reads, decided);
      if (decided) break;
    }
    return reads;
  }
  static void FirstUseInExpr(const Expr* expr, Symbol name, bool& reads, bool& decided) {
    if (expr == nullptr || decided) return;
    if (expr->kind == ExprKind::kName && static_cast<const syntax::NameExpr*>(expr)->name == name) {
      reads = decided = true;
      return;
    }
    VisitParts(*expr, [&](const Expr* part) { FirstUseInExpr(part, name, reads, decided); });
  }
  void FirstUseInBody(const syntax::Body& body, Symbol name, bool& reads, bool& decided) {
    for (const StatementPtr& statement : body.statements) {
      if (!decided) FirstUse(*statement, name, reads, decided);
    }
  }
  static void FirstUseInTarget(const Target& target, Symbol name, bool& decided) {
    for (const Target& part : target.parts) FirstUseInTarget(part, name, decided);
    if (!target.is_tuple && target.attribute.missing() && target.name == name) decided = true;
  }
  void FirstUseInMacro(const syntax::MacroDefinition& macro, Symbol name, bool& reads,
                       bool& decided) {
    for (const Symbol parameter : macro.parameters) decided = decided || parameter == name;
    for (const ExprPtr& value : macro.defaults) FirstUseInExpr(value.get(), name, reads, decided);
    FirstUseInBody(macro.body, name, reads, decided);
  }
  void FirstUse(const Statement& statement, Symbol name, bool& reads, bool& decided) {
    if (decided) return;
    const auto in_expr = [&](const ExprPtr& e) { FirstUseInExpr(e.get(), name, reads, decided); };
    switch (statement.kind) {
      case StatementKind::kPrint:
        return in_expr(static_cast<const syntax::PrintStatement&>(statement).value);
      case StatementKind::kFor: {
        const auto& loop = static_cast<const syntax::ForStatement&>(statement);
        FirstUseInTarget(loop.target, name, decided);
        in_expr(loop.iterable);
        FirstUseInBody(loop.body, name, reads, decided);
        FirstUseInBody(loop.otherwise, name, reads, decided);
        return in_expr(loop.test);
      }
      case StatementKind::kIf: {
        const auto& node = static_cast<const IfStatement&>(statement);
        for (const auto& [test, body] : node.branches) {
          in_expr(test);
          FirstUseInBody(body, name, reads, decided);
        }
        return FirstUseInBody(node.otherwise, name, reads, decided);
      }
      case StatementKind::kSet:
        FirstUseInTarget(static_cast<const SetStatement&>(statement).target, name, decided);
        return in_expr(static_cast<const SetStatement&>(statement).value);
      case StatementKind::kSetBlock:
        FirstUseInTarget(static_cast<const SetBlockStatement&>(statement).target, name, decided);
        in_expr(static_cast<const SetBlockStatement&>(statement).filter);
        return FirstUseInBody(static_cast<const SetBlockStatement&>(statement).body, name, reads,
                              decided);
      case StatementKind::kMacro:
        return FirstUseInMacro(static_cast<const syntax::MacroStatement&>(statement).macro, name,
                               reads, decided);
      case StatementKind::kCallBlock: {
        const auto& node = static_cast<const syntax::CallBlockStatement&>(statement);
        FirstUseInExpr(node.call.get(), name, reads, decided);
        return FirstUseInMacro(node.caller, name, reads, decided);
      }
      default:
        return FirstUseInScope(statement, name, reads, decided);
    }
  }
  void FirstUseInScope(const Statement& statement, Symbol name, bool& reads, bool& decided) {
    if (statement.kind == StatementKind::kFilterBlock) {
      const auto& node = static_cast<const syntax::FilterBlockStatement&>(statement);
      FirstUseInBody(node.body, name, reads, decided);
      FirstUseInExpr(node.filter.get(), name, reads, decided);
    } else if (statement.kind == StatementKind::kWith) {
      const auto& node = static_cast<const syntax::WithStatement&>(statement);
      for (const auto& [target, value] : node.values) FirstUseInTarget(target, name, decided);
      for (const auto& [target, value] : node.values) {
        FirstUseInExpr(value.get(), name, reads, decided);
      }
      FirstUseInBody(node.body, name, reads, decided);
    } else if (statement.kind == StatementKind::kScope) {
      FirstUseInBody(static_cast<const syntax::ScopeStatement&>(statement).body, name, reads,
                     decided);
    }
  }

  void EnterMacro(syntax::MacroDefinition& macro, const Symbols& outer) {
    const auto takes = [&](Symbol name) {
      return std::find(macro.parameters.begin(), macro.parameters.end(), name) !=
             macro.parameters.end();
    };
    macro.reads_caller = Reads(macro.body, caller_) && !takes(caller_);
    macro.reads_kwargs = Reads(macro.body, kwargs_) && !takes(kwargs_);
    macro.reads_varargs = Reads(macro.body, varargs_) && !takes(varargs_);
    Symbols symbols{.parent = &outer};
    for (const Symbol parameter : macro.parameters) symbols.Declare(parameter);
    if (macro.reads_caller) symbols.Declare(caller_);
    if (macro.reads_kwargs) symbols.Declare(kwargs_);
    if (macro.reads_varargs) symbols.Declare(varargs_);
    for (const ExprPtr& value : macro.defaults) CollectExpr(value.get(), symbols);
    VisitScope(macro.body, symbols);
  }

  void EnterScope(syntax::ScopedBody& body, const Symbols& outer) {
    Symbols symbols{.parent = &outer};
    VisitScope(body, symbols);
  }

  // Analyses the scopes that a statement opens.
  void Enter(Statement& statement, const Symbols& symbols) {
    switch (statement.kind) {
      case StatementKind::kFor: {
        auto& loop = static_cast<syntax::ForStatement&>(statement);
        Symbols inner{.parent = &symbols};
        CollectTarget(loop.target, true, inner);
        VisitScope(loop.body, inner);
        EnterScope(loop.otherwise, symbols);
        break;
      }
      case StatementKind::kIf:
        for (auto& [test, body] : static_cast<IfStatement&>(statement).branches) {
          for (const StatementPtr& part : body.statements) Enter(*part, symbols);
        }
        for (const StatementPtr& part : static_cast<IfStatement&>(statement).otherwise.statements) {
          Enter(*part, symbols);
        }
        break;
      case StatementKind::kSetBlock:
        EnterScope(static_cast<SetBlockStatement&>(statement).body, symbols);
        break;
      case StatementKind::kMacro:
        EnterMacro(static_cast<syntax::MacroStatement&>(statement).macro, symbols);
        break;
      case StatementKind::kCallBlock:
        EnterMacro(static_cast<syntax::CallBlockStatement&>(statement).caller, symbols);
        break;
      case StatementKind::kFilterBlock:
        EnterScope(static_cast<syntax::FilterBlockStatement&>(statement).body, symbols);
        break;
      case StatementKind::kWith: {
        auto& node = static_cast<syntax::WithStatement&>(statement);
        Symbols inner{.parent = &symbols};
        for (const auto& [target, value] : node.values) CollectTarget(target, true, inner);
        VisitScope(node.body, inner);
        break;
      }
      case StatementKind::kScope:
        EnterScope(static_cast<syntax::ScopeStatement&>(statement).body, symbols);
        break;
      default:
        break;
    }
  }

  Symbol caller_;
  Symbol kwargs_;
  Symbol varargs_;
};

}  // namespace

void AnalyzeScopes(syntax::ScopedBody& body, const SymbolTable& symbols) {
  Symbols root;
  Analyzer(symbols).VisitScope(body, root);
}

}  // namespace kvgate::jinja::parse
