// Grammar: a context-free grammar over bytes while it is built. The parsers of GBNF and JSON Schema
// produce one, and Automaton compiles it. It knows no tokens.
//
// An expression can only use expressions that exist already, so expressions form trees (or DAGs if
// a part is used twice) and cycles always go through rules. Not thread-safe.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "engine/text/grammar/rules/char_set.h"

namespace kvgate::grammar::rules {

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
  // Range of children, range of literal bytes, first and last byte, or index of the set or rule.
  uint32_t begin = 0;
  uint32_t end = 0;
  RepeatCount count = {};
};

class Grammar {
 public:
  // Memory limit for one grammar. Expressions beyond it are dropped and is_full() becomes true; the
  // grammar is unusable then, and the caller should stop.
  static constexpr size_t kBytesMax = size_t{48} << 20;
  bool is_full() const { return bytes_used_ > kBytesMax; }

  ExprId Empty() { return Literal({}); }
  ExprId Nothing();  // the empty language: not even the empty text is in it
  ExprId Literal(std::string_view bytes);
  ExprId Bytes(uint8_t first, uint8_t last);  // one byte of the range, in any encoding
  ExprId Chars(const CharSet& set);           // one character of the set, as UTF-8
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

  // Adds a rule without a body, so that expressions can refer to it before the body exists.
  RuleId AddRule(std::string name);
  void SetBody(RuleId rule, ExprId body) {
    if (rule.value < rules_.size()) rules_[rule.value].body = body;
  }
  bool has_body(RuleId rule) const { return rules_[rule.value].body.has_value(); }
  void SetRoot(RuleId rule) { root_ = rule; }

  // --- input of Automaton::Build ---
  RuleId root() const { return root_; }
  size_t num_exprs() const { return exprs_.size(); }
  size_t num_rules() const { return rules_.size(); }
  const Expr& expr(ExprId id) const { return exprs_[id.value]; }
  std::span<const ExprId> children(const Expr& expr) const;
  std::string_view literal(const Expr& expr) const;
  const CharSet& set(const Expr& expr) const { return sets_[expr.begin]; }
  static RuleId rule(const Expr& expr) { return {expr.begin}; }
  // REQUIRES: has_body(rule).
  ExprId body(RuleId rule) const { return *rules_[rule.value].body; }
  const std::string& name(RuleId rule) const { return rules_[rule.value].name; }

 private:
  struct RuleData {
    std::string name;
    std::optional<ExprId> body;
  };
  // Returns false if the grammar is full.
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

// Properties derived from the rules. Analyze REQUIRES that every rule referred to has a body.
struct GrammarFacts {
  std::vector<bool> nullable;            // by expression: it matches the empty text
  std::vector<bool> productive;          // by expression: it matches some text
  std::optional<RuleId> left_recursive;  // a rule that can reach itself before any byte
  std::optional<RuleId> unproductive;    // a rule that matches no text
};
GrammarFacts Analyze(const Grammar& grammar);

}  // namespace kvgate::grammar::rules
