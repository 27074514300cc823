#include "engine/text/grammar/language/gbnf.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/hex.h"
#include "base/utf8.h"

namespace kvgate::grammar::language {

using rules::ExprId;
using rules::RuleId;

namespace {

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

class GbnfParser {
 public:
  GbnfParser(std::string_view text, const GbnfLimits& limits) : text_(text), limits_(limits) {}

  Result<rules::Grammar> Parse() {
    if (text_.size() > limits_.bytes_max) {
      return MakeError(ErrorCode::kTooLarge, "grammar",
                       fmt::format("the grammar has {} bytes; at most {} are read", text_.size(),
                                   limits_.bytes_max));
    }
    const size_t valid = ValidUtf8Bytes(text_);
    if (valid < text_.size()) return ErrorAt(valid, "this is not UTF-8");
    SkipSpace(true);
    while (at_ < text_.size()) {
      KVGATE_TRY_VOID(ParseRule());
      SkipSpace(true);
    }
    const auto root = rules_.find("root");
    if (root == rules_.end() || !grammar_.has_body(root->second)) {
      return MakeError(ErrorCode::kInvalidArgument, "grammar", "there is no rule 'root'");
    }
    for (const auto& [rule, position] : first_uses_) {
      if (grammar_.has_body(rule)) continue;
      return ErrorAt(position, fmt::format("there is no rule '{}'", grammar_.name(rule)));
    }
    grammar_.SetRoot(root->second);
    const rules::GrammarFacts facts = rules::Analyze(grammar_);
    if (facts.unproductive) {
      return MakeError(
          ErrorCode::kInvalidArgument, "grammar",
          fmt::format("the rule '{}' never comes to an end", grammar_.name(*facts.unproductive)));
    }
    return std::move(grammar_);
  }

 private:
  Error ErrorAt(size_t position, std::string_view what) const {
    const std::string_view before = text_.substr(0, position);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t begin = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    return MakeError(ErrorCode::kInvalidArgument, "grammar",
                     fmt::format("line {}, column {}: {}", line, position - begin + 1, what));
  }

  bool At(std::string_view wanted) const { return text_.substr(at_).starts_with(wanted); }
  bool AtEnd() const { return at_ == text_.size(); }

  void SkipSpace(bool with_newlines) {
    while (!AtEnd()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == ' ' || c == '\t' || (with_newlines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string_view TakeName() {
    const size_t begin = at_;
    while (!AtEnd() && IsNameChar(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  RuleId RuleOf(std::string_view name) {
    const auto [at, is_new] = rules_.try_emplace(std::string(name));
    if (is_new) at->second = grammar_.AddRule(std::string(name));
    return at->second;
  }

  Result<void> ParseRule() {
    const size_t begin = at_;
    const std::string_view name = TakeName();
    if (name.empty()) return ErrorAt(at_, "expected the name of a rule");
    const RuleId rule = RuleOf(name);
    if (rules_.size() > limits_.rules_max) {
      return MakeError(ErrorCode::kTooLarge, "grammar",
                       fmt::format("the grammar has more than {} rules", limits_.rules_max));
    }
    if (grammar_.has_body(rule)) {
      return ErrorAt(begin, fmt::format("the rule '{}' is there twice", name));
    }
    SkipSpace(true);
    if (!At("::=")) return ErrorAt(at_, fmt::format("expected ::= behind '{}'", name));
    at_ += 3;
    SkipSpace(true);
    KVGATE_TRY(const ExprId body, ParseAlternatives(0));
    grammar_.SetBody(rule, body);
    SkipSpace(false);
    if (!AtEnd() && text_[at_] != '\n' && text_[at_] != '\r') {
      return ErrorAt(at_, "expected a part of a rule or the end of the line");
    }
    return {};
  }

  // Consumes a | on this line or, outside parentheses too, at the beginning of a following line.
  bool TakeBar() {
    const size_t begin = at_;
    SkipSpace(true);
    if (At("|")) {
      ++at_;
      SkipSpace(true);
      return true;
    }
    at_ = begin;
    return false;
  }

  Result<ExprId> ParseAlternatives(int depth) {
    std::vector<ExprId> alternatives;
    do {
      KVGATE_TRY(const ExprId sequence, ParseSequence(depth));
      alternatives.push_back(sequence);
    } while (TakeBar());
    return grammar_.Choice(alternatives);
  }

  Result<ExprId> ParseSequence(int depth) {
    std::vector<ExprId> parts;
    while (true) {
      SkipSpace(depth > 0);
      if (AtEnd()) break;
      const char c = text_[at_];
      if (c != '"' && c != '[' && c != '(' && c != '.' && !IsNameChar(c)) break;
      const size_t begin = at_;
      KVGATE_TRY(const ExprId part, ParsePart(depth));
      KVGATE_TRY(const ExprId repeated, ParseRepetition(begin, part));
      parts.push_back(repeated);
    }
    return parts.empty() ? grammar_.Empty() : grammar_.Sequence(parts);
  }

  Result<ExprId> ParsePart(int depth) {
    switch (text_[at_]) {
      case '"':
        return ParseText();
      case '[':
        return ParseClass();
      case '.':
        ++at_;
        return grammar_.Chars(rules::CharSet::All());
      case '(':
        return ParseGroup(depth);
      default: {
        const size_t begin = at_;
        const RuleId rule = RuleOf(TakeName());
        first_uses_.emplace_back(rule, begin);
        return grammar_.Rule(rule);
      }
    }
  }

  Result<ExprId> ParseGroup(int depth) {
    const size_t begin = at_++;
    if (depth == limits_.depth_max) {
      return ErrorAt(begin, fmt::format("more than {} ( in each other", limits_.depth_max));
    }
    SkipSpace(true);
    KVGATE_TRY(const ExprId group, ParseAlternatives(depth + 1));
    SkipSpace(true);
    if (!At(")")) return ErrorAt(AtEnd() ? begin : at_, "this ( has no )");
    ++at_;
    return group;
  }

  Result<char32_t> TakeHex(size_t begin, int digits) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const int digit = AtEnd() ? -1 : HexDigit(text_[at_]);
      if (digit < 0) return ErrorAt(begin, fmt::format("expected {} hex digits", digits));
      value = value * 16 + static_cast<char32_t>(digit);
      ++at_;
    }
    if (value > rules::kLastChar || (value >= 0xD800 && value < 0xE000)) {
      return ErrorAt(begin, "this is not a character of Unicode");
    }
    return value;
  }

  // Reads a character or an escape. REQUIRES: not at the end.
  Result<char32_t> TakeChar() {
    const size_t begin = at_;
    if (text_[at_] != '\\') {
      const Utf8Step step = NextUtf8(text_.substr(at_));
      at_ += step.length;
      return step.code_point;
    }
    ++at_;
    const char escape = AtEnd() ? '\0' : text_[at_++];
    switch (escape) {
      case 'n':
        return U'\n';
      case 'r':
        return U'\r';
      case 't':
        return U'\t';
      case 'x':
        return TakeHex(begin, 2);
      case 'u':
        return TakeHex(begin, 4);
      case 'U':
        return TakeHex(begin, 8);
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<char32_t>(escape);
      default:
        return ErrorAt(begin, "this escape is not known");
    }
  }

  Result<ExprId> ParseText() {
    const size_t begin = at_++;
    std::string bytes;
    while (!At("\"")) {
      if (AtEnd() || text_[at_] == '\n') return ErrorAt(begin, "this \" has no end");
      KVGATE_TRY(const char32_t character, TakeChar());
      AppendUtf8(character, bytes);
    }
    ++at_;
    return grammar_.Literal(bytes);
  }

  Result<ExprId> ParseClass() {
    const size_t begin = at_++;
    const bool negated = At("^");
    if (negated) ++at_;
    std::vector<rules::CharRange> ranges;
    while (!At("]")) {
      if (AtEnd() || text_[at_] == '\n') return ErrorAt(begin, "this [ has no ]");
      const size_t range_begin = at_;
      KVGATE_TRY(const char32_t first, TakeChar());
      char32_t last = first;
      if (At("-") && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        KVGATE_TRY(last, TakeChar());
      }
      if (last < first) return ErrorAt(range_begin, "this range ends before it begins");
      ranges.push_back({first, last});
    }
    ++at_;
    rules::CharSet set = rules::CharSet::OfRanges(std::move(ranges));
    if (negated) set = set.Complement();
    if (set.empty()) return ErrorAt(begin, "this class has no characters");
    return grammar_.Chars(set);
  }

  Result<uint32_t> TakeNumber() {
    const size_t begin = at_;
    uint64_t number = 0;
    while (!AtEnd() && text_[at_] >= '0' && text_[at_] <= '9') {
      number = number * 10 + static_cast<uint64_t>(text_[at_++] - '0');
      if (number > limits_.repeat_max) {
        return ErrorAt(begin, fmt::format("at most {} repetitions", limits_.repeat_max));
      }
    }
    if (at_ == begin) return ErrorAt(at_, "expected a number");
    return static_cast<uint32_t>(number);
  }

  Result<rules::RepeatCount> TakeBraces() {
    const size_t begin = at_++;
    rules::RepeatCount count;
    SkipSpace(false);
    if (!At(",")) {
      KVGATE_TRY(count.min, TakeNumber());
      count.max = count.min;
    }
    SkipSpace(false);
    if (At(",")) {
      ++at_;
      SkipSpace(false);
      count.max = rules::kUnbounded;
      if (!At("}")) {
        KVGATE_TRY(count.max, TakeNumber());
      }
      SkipSpace(false);
    }
    if (!At("}")) return ErrorAt(begin, "this { has no }");
    ++at_;
    if (count.max < count.min) return ErrorAt(begin, "the second number is less than the first");
    return count;
  }

  // `begin`: where the part begins, for error messages.
  Result<ExprId> ParseRepetition(size_t begin, ExprId part) {
    int num_repetitions = 0;
    while (!AtEnd()) {
      rules::RepeatCount count;
      if (At("*")) {
        ++at_;
      } else if (At("+")) {
        count.min = 1;
        ++at_;
      } else if (At("?")) {
        count.max = 1;
        ++at_;
      } else if (At("{")) {
        KVGATE_TRY(count, TakeBraces());
      } else {
        break;
      }
      if (++num_repetitions > limits_.depth_max) return ErrorAt(begin, "repeated too often");
      part = grammar_.Repeat(part, count);
    }
    return part;
  }

  const std::string_view text_;
  const GbnfLimits& limits_;
  size_t at_ = 0;
  rules::Grammar grammar_;
  std::unordered_map<std::string, RuleId> rules_;
  std::vector<std::pair<RuleId, size_t>> first_uses_;
};

}  // namespace

Result<rules::Grammar> ParseGbnf(std::string_view text, const GbnfLimits& limits) {
  return GbnfParser(text, limits).Parse();
}

}  // namespace kvgate::grammar::language
