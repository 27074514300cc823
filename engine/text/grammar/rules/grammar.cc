#include "engine/text/grammar/rules/grammar.h"

#include <algorithm>
#include <utility>

namespace kvgate::grammar::rules {
namespace {

constexpr size_t kBlockBytes = 16;  // allocator overhead of one block

// For each expression, the expressions that use it. A rule's body counts as used by every reference
// to the rule.
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

// Returns how many parts must have a property before the expression has it: all of a sequence, one
// of a choice. `leaf` decides for expressions without parts.
template <typename Leaf>
uint32_t NumWanted(const Grammar& grammar, const Expr& expr, Leaf leaf) {
  switch (expr.kind) {
    case ExprKind::kSequence:
      return static_cast<uint32_t>(grammar.children(expr).size());
    case ExprKind::kRepeat:
      return expr.count.min == 0 ? 0 : 1;
    case ExprKind::kChoice:
    case ExprKind::kRule:
      return 1;
    default:
      return leaf(expr) ? 0 : 1;  // without parts, 1 is never reached
  }
}

// Computes the least fixed point. Each part is counted once, so the time is linear even for long
// sequences.
template <typename Leaf>
std::vector<bool> Solve(const Grammar& grammar, const Parents& parents, Leaf leaf) {
  std::vector<bool> solution(grammar.num_exprs(), false);
  std::vector<uint32_t> wanted(grammar.num_exprs());
  std::vector<ExprId> pending;
  const auto solve = [&](ExprId id) {
    solution[id.value] = true;
    pending.push_back(id);
  };
  for (uint32_t i = 0; i < grammar.num_exprs(); ++i) {
    wanted[i] = NumWanted(grammar, grammar.expr({i}), leaf);
    if (wanted[i] == 0) solve({i});
  }
  while (!pending.empty()) {
    const ExprId part = pending.back();
    pending.pop_back();
    for (const ExprId parent : parents.of(part)) {
      if (!solution[parent.value] && --wanted[parent.value] == 0) solve(parent);
    }
  }
  return solution;
}

// Returns the parts that may come first, before any byte is consumed.
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

// Depth-first search without recursion. Every cycle passes through a rule reference, because
// expressions form a DAG.
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

bool Grammar::Charge(size_t bytes) {
  bytes_used_ += bytes;
  return !is_full();
}

ExprId Grammar::Add(Expr expr) {
  if (!Charge(sizeof(Expr))) return {};
  exprs_.push_back(expr);
  return {static_cast<uint32_t>(exprs_.size() - 1)};
}

ExprId Grammar::AddParent(Expr expr, std::span<const ExprId> parts) {
  if (!Charge(parts.size_bytes())) return {};
  expr.begin = static_cast<uint32_t>(children_.size());
  children_.insert(children_.end(), parts.begin(), parts.end());
  expr.end = static_cast<uint32_t>(children_.size());
  return Add(expr);
}

ExprId Grammar::Nothing() { return Add({.kind = ExprKind::kNothing}); }

ExprId Grammar::Literal(std::string_view bytes) {
  if (!Charge(bytes.size())) return {};
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
  if (!Charge(sizeof(CharSet) + set.ranges().size_bytes() + kBlockBytes)) return {};
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
  if (!Charge(sizeof(RuleData) + name.size())) return {};
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
  facts.nullable = Solve(grammar, parents, [](const Expr& leaf) {
    return leaf.kind == ExprKind::kLiteral && leaf.begin == leaf.end;
  });
  facts.productive =
      Solve(grammar, parents, [](const Expr& leaf) { return leaf.kind != ExprKind::kNothing; });
  facts.left_recursive = FindLeftRecursion(grammar, facts);
  for (uint32_t i = 0; i < grammar.num_rules() && !facts.unproductive; ++i) {
    if (grammar.has_body({i}) && !facts.productive[grammar.body({i}).value]) {
      facts.unproductive = RuleId{i};
    }
  }
  return facts;
}

}  // namespace kvgate::grammar::rules
