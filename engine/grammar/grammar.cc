#include "engine/grammar/grammar.h"

#include <algorithm>
#include <utility>

namespace kvgate::grammar {
namespace {

// Expressions by what they are parts of; a rule's body is a part of every reference to the rule.
class Parents {
 public:
  explicit Parents(const Grammar& grammar) : begins_(grammar.num_exprs() + 1, 0) {
    ForEachPart(grammar, [this](ExprId part, ExprId) { ++begins_[part.value + 1]; });
    for (size_t i = 1; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
    parents_.resize(begins_.back());
    std::vector<uint32_t> next(begins_.begin(), begins_.end() - 1);
    ForEachPart(grammar,
                [&](ExprId part, ExprId parent) { parents_[next[part.value]++] = parent; });
  }

  std::span<const ExprId> of(ExprId part) const {
    return std::span(parents_).subspan(begins_[part.value],
                                       begins_[part.value + 1] - begins_[part.value]);
  }

 private:
  template <typename Function>
  static void ForEachPart(const Grammar& grammar, Function function) {
    for (uint32_t i = 0; i < grammar.num_exprs(); ++i) {
      const Expr& expr = grammar.expr({i});
      if (expr.kind == ExprKind::kRule) {
        function(grammar.body(Grammar::rule(expr)), ExprId{i});
      } else {
        for (const ExprId child : grammar.children(expr)) function(child, ExprId{i});
      }
    }
  }

  std::vector<uint32_t> begins_;
  std::vector<ExprId> parents_;
};

// The least solution: `holds` says whether an expression has the property, given its parts'.
template <typename Holds>
std::vector<bool> Solve(const Grammar& grammar, const Parents& parents, Holds holds) {
  std::vector<bool> solution(grammar.num_exprs(), false);
  std::vector<ExprId> pending;
  const auto visit = [&](ExprId id) {
    if (solution[id.value] || !holds(grammar.expr(id), solution)) return;
    solution[id.value] = true;
    pending.push_back(id);
  };
  for (uint32_t i = 0; i < grammar.num_exprs(); ++i) visit({i});
  while (!pending.empty()) {
    const ExprId part = pending.back();
    pending.pop_back();
    for (const ExprId parent : parents.of(part)) visit(parent);
  }
  return solution;
}

// The shape that all such properties share: all parts of a sequence, one of a choice.
template <typename Leaf>
bool Combine(const Grammar& grammar, const Expr& expr, const std::vector<bool>& solution,
             Leaf leaf) {
  const auto solved = [&](ExprId id) -> bool { return solution[id.value]; };
  const std::span<const ExprId> parts = grammar.children(expr);
  switch (expr.kind) {
    case ExprKind::kSequence:
      return std::all_of(parts.begin(), parts.end(), solved);
    case ExprKind::kChoice:
      return std::any_of(parts.begin(), parts.end(), solved);
    case ExprKind::kRepeat:
      return expr.count.min == 0 || solved(parts.front());
    case ExprKind::kRule:
      return solved(grammar.body(Grammar::rule(expr)));
    default:
      return leaf(expr);
  }
}

// What an expression may begin with, as far as no byte has been taken.
std::vector<ExprId> LeftParts(const Grammar& grammar, const GrammarFacts& facts, ExprId id) {
  const Expr& expr = grammar.expr(id);
  std::vector<ExprId> parts;
  if (expr.kind == ExprKind::kRule) return {grammar.body(Grammar::rule(expr))};
  for (const ExprId child : grammar.children(expr)) {
    if (facts.productive[child.value]) parts.push_back(child);
    if (expr.kind == ExprKind::kSequence && !facts.nullable[child.value]) break;
  }
  return parts;
}

// Depth first, without recursion; a cycle goes through a reference, since trees have none.
std::optional<RuleId> FindLeftRecursion(const Grammar& grammar, const GrammarFacts& facts) {
  enum Color : uint8_t { kNew, kOpen, kDone };
  std::vector<Color> colors(grammar.num_exprs(), kNew);
  struct Visit {
    ExprId id;
    std::vector<ExprId> parts;
    size_t next = 0;
  };
  std::vector<Visit> path;
  for (uint32_t i = 0; i < grammar.num_exprs(); ++i) {
    if (colors[i] != kNew || !facts.productive[i]) continue;
    colors[i] = kOpen;
    path.push_back({.id = {i}, .parts = LeftParts(grammar, facts, {i})});
    while (!path.empty()) {
      Visit& visit = path.back();
      if (visit.next == visit.parts.size()) {
        colors[visit.id.value] = kDone;
        path.pop_back();
        continue;
      }
      const ExprId part = visit.parts[visit.next++];
      if (colors[part.value] == kDone) continue;
      if (colors[part.value] == kNew) {
        colors[part.value] = kOpen;
        path.push_back({.id = part, .parts = LeftParts(grammar, facts, part)});
        continue;
      }
      for (size_t at = path.size(); at-- > 0;) {
        const Expr& expr = grammar.expr(path[at].id);
        if (expr.kind == ExprKind::kRule) return Grammar::rule(expr);
      }
    }
  }
  return std::nullopt;
}

}  // namespace

ExprId Grammar::Add(Expr expr) {
  exprs_.push_back(expr);
  return {static_cast<uint32_t>(exprs_.size() - 1)};
}

ExprId Grammar::AddParent(Expr expr, std::span<const ExprId> parts) {
  expr.begin = static_cast<uint32_t>(children_.size());
  children_.insert(children_.end(), parts.begin(), parts.end());
  expr.end = static_cast<uint32_t>(children_.size());
  return Add(expr);
}

ExprId Grammar::Nothing() { return Add({.kind = ExprKind::kNothing}); }

ExprId Grammar::Literal(std::string_view bytes) {
  const auto begin = static_cast<uint32_t>(bytes_.size());
  bytes_ += bytes;
  return Add(
      {.kind = ExprKind::kLiteral, .begin = begin, .end = static_cast<uint32_t>(bytes_.size())});
}

ExprId Grammar::Bytes(uint8_t first, uint8_t last) {
  return Add({.kind = ExprKind::kByte, .begin = first, .end = last});
}

ExprId Grammar::Chars(const CharSet& set) {
  if (set.empty()) return Nothing();
  sets_.push_back(set);
  return Add({.kind = ExprKind::kChars, .begin = static_cast<uint32_t>(sets_.size() - 1)});
}

ExprId Grammar::Sequence(std::span<const ExprId> parts) {
  if (parts.size() == 1) return parts.front();
  return AddParent({.kind = ExprKind::kSequence}, parts);
}

ExprId Grammar::Choice(std::span<const ExprId> parts) {
  if (parts.size() == 1) return parts.front();
  return AddParent({.kind = ExprKind::kChoice}, parts);
}

ExprId Grammar::Repeat(ExprId part, RepeatCount count) {
  return AddParent({.kind = ExprKind::kRepeat, .count = count}, {&part, 1});
}

ExprId Grammar::Rule(RuleId rule) { return Add({.kind = ExprKind::kRule, .begin = rule.value}); }

RuleId Grammar::AddRule(std::string name) {
  rules_.push_back({.name = std::move(name), .body = std::nullopt});
  return {static_cast<uint32_t>(rules_.size() - 1)};
}

std::span<const ExprId> Grammar::children(const Expr& expr) const {
  const bool is_parent = expr.kind == ExprKind::kSequence || expr.kind == ExprKind::kChoice ||
                         expr.kind == ExprKind::kRepeat;
  if (!is_parent) return {};
  return std::span(children_).subspan(expr.begin, expr.end - expr.begin);
}

std::string_view Grammar::literal(const Expr& expr) const {
  return std::string_view(bytes_).substr(expr.begin, expr.end - expr.begin);
}

GrammarFacts Analyze(const Grammar& grammar) {
  const Parents parents(grammar);
  GrammarFacts facts;
  facts.nullable = Solve(grammar, parents, [&](const Expr& expr, const auto& solution) {
    return Combine(grammar, expr, solution, [](const Expr& leaf) {
      return leaf.kind == ExprKind::kLiteral && leaf.begin == leaf.end;
    });
  });
  facts.productive = Solve(grammar, parents, [&](const Expr& expr, const auto& solution) {
    return Combine(grammar, expr, solution,
                   [](const Expr& leaf) { return leaf.kind != ExprKind::kNothing; });
  });
  facts.left_recursive = FindLeftRecursion(grammar, facts);
  for (uint32_t i = 0; i < grammar.num_rules() && !facts.unproductive; ++i) {
    if (grammar.has_body({i}) && !facts.productive[grammar.body({i}).value]) {
      facts.unproductive = RuleId{i};
    }
  }
  return facts;
}

}  // namespace kvgate::grammar
