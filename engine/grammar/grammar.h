// Grammar: a context-free grammar over bytes, in the making. GBNF and JSON Schema are read into
// one; Automaton is made from it. It knows no tokens.
//
// Expressions are made from others that exist already, so an expression is a tree (or, where a part
// is used twice, a DAG) and only rules make cycles. Not thread-safe.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/ids.h>

#include "engine/grammar/char_set.h"

namespace kvgate::grammar {

using ExprId = StrongId<struct ExprIdTag, uint32_t>;
using RuleId = StrongId<struct RuleIdTag, uint32_t>;

inline constexpr uint32_t kUnbounded = std::numeric_limits<uint32_t>::max();

struct RepeatCount {
  uint32_t min = 0;
  uint32_t max = kUnbounded;
};

enum class ExprKind : uint8_t {
  kNothing,
  kLiteral,
  kByte,
  kChars,
  kSequence,
  kChoice,
  kRepeat,
  kRule,
};

struct Expr {
  ExprKind kind = ExprKind::kNothing;
  // Children, bytes of a literal, first and last byte, or index of the set or the rule.
  uint32_t begin = 0;
  uint32_t end = 0;
  RepeatCount count = {};
};

class Grammar {
 public:
  // Of memory, for all that it is made of. What would need more is not added, and is_full() says
  // so: then the grammar is of no use, and whoever is making it stops.
  static constexpr size_t kBytesMax = size_t{48} << 20;
  bool is_full() const { return bytes_used_ > kBytesMax; }

  ExprId Empty() { return Literal({}); }
  ExprId Nothing();  // no text at all, not even the empty one
  ExprId Literal(std::string_view bytes);
  ExprId Bytes(uint8_t first, uint8_t last);  // one of them, whatever it is of
  ExprId Chars(const CharSet& set);           // one of them, as UTF-8
  ExprId Sequence(std::span<const ExprId> parts);
  ExprId Sequence(std::initializer_list<ExprId> parts) {
    return Sequence({parts.begin(), parts.size()});
  }
  ExprId Choice(std::span<const ExprId> parts);
  ExprId Choice(std::initializer_list<ExprId> parts) {
    return Choice({parts.begin(), parts.size()});
  }
  // REQUIRES: min <= max.
  ExprId Repeat(ExprId part, RepeatCount count);
  ExprId Optional(ExprId part) { return Repeat(part, {.min = 0, .max = 1}); }
  ExprId Rule(RuleId rule);

  // A rule without a body yet, which any expression may refer to.
  RuleId AddRule(std::string name);
  void SetBody(RuleId rule, ExprId body) {
    if (rule.value < rules_.size()) rules_[rule.value].body = body;
  }
  bool has_body(RuleId rule) const { return rules_[rule.value].body.has_value(); }
  void SetRoot(RuleId rule) { root_ = rule; }

  // --- what an automaton is made from ---
  RuleId root() const { return root_; }
  size_t num_exprs() const { return exprs_.size(); }
  size_t num_rules() const { return rules_.size(); }
  const Expr& expr(ExprId id) const { return exprs_[id.value]; }
  std::span<const ExprId> children(const Expr& expr) const;
  std::string_view literal(const Expr& expr) const;
  const CharSet& set(const Expr& expr) const { return sets_[expr.begin]; }
  static RuleId rule(const Expr& expr) { return {expr.begin}; }
  // REQUIRES: it has one.
  ExprId body(RuleId rule) const { return *rules_[rule.value].body; }
  const std::string& name(RuleId rule) const { return rules_[rule.value].name; }

 private:
  struct RuleData {
    std::string name;
    std::optional<ExprId> body;
  };
  // False: the grammar is full.
  bool Charge(size_t bytes);
  ExprId Add(Expr expr);
  ExprId AddParent(Expr expr, std::span<const ExprId> parts);

  std::vector<Expr> exprs_;
  std::vector<ExprId> children_;
  std::string bytes_;
  std::vector<CharSet> sets_;
  std::vector<RuleData> rules_;
  RuleId root_ = {};
  size_t bytes_used_ = 0;
};

// What follows from the rules. REQUIRES of Analyze: every rule that is referred to has a body.
struct GrammarFacts {
  std::vector<bool> nullable;            // by expression: the empty text is in it
  std::vector<bool> productive;          // by expression: some text is in it
  std::optional<RuleId> left_recursive;  // a rule that can come to itself before any byte
  std::optional<RuleId> unproductive;    // a rule without any text
};
GrammarFacts Analyze(const Grammar& grammar);

}  // namespace kvgate::grammar
