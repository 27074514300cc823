#include "engine/text/grammar/language/lark_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hex.h"
#include "base/utf8.h"

namespace kvgate::grammar::language {

using rules::RepeatCount;

namespace {

// Terminals of the library's "common" module.
constexpr std::string_view kCommon = R"lark(
DIGIT: "0".."9"
HEXDIGIT: "a".."f"|"A".."F"|DIGIT
INT: DIGIT+
SIGNED_INT: ["+"|"-"] INT
DECIMAL: INT "." INT? | "." INT
_EXP: ("e"|"E") SIGNED_INT
FLOAT: INT _EXP | DECIMAL _EXP?
SIGNED_FLOAT: ["+"|"-"] FLOAT
NUMBER: FLOAT | INT
SIGNED_NUMBER: ["+"|"-"] NUMBER
ESCAPED_STRING: "\"" /([^"\\\n\r]|\\[^\n\r])*/ "\""
LCASE_LETTER: "a".."z"
UCASE_LETTER: "A".."Z"
LETTER: UCASE_LETTER | LCASE_LETTER
WORD: LETTER+
CNAME: ("_"|LETTER) ("_"|LETTER|DIGIT)*
WS_INLINE: (" "|/\t/)+
WS: /[ \t\f\r\n]/+
CR : /\r/
LF : /\n/
NEWLINE: (CR? LF)+
SH_COMMENT: /#[^\n]*/
CPP_COMMENT: /\/\/[^\n]*/
SQL_COMMENT: /--[^\n]*/
)lark";

bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsNameChar(char c) { return IsNameStart(c) || (c >= '0' && c <= '9'); }

class LarkParser {
 public:
  LarkParser(std::string_view text, const LarkLimits& limits, LarkRules& rules)
      : text_(text), limits_(limits), rules_(rules) {}

  Result<void> Parse() {
    if (text_.size() > limits_.bytes_max) {
      return MakeError(ErrorCode::kTooLarge, "grammar.lark",
                       fmt::format("the grammar has {} bytes; at most {} are read", text_.size(),
                                   limits_.bytes_max));
    }
    if (ValidUtf8Bytes(text_) < text_.size()) return Invalid("this is not UTF-8");
    SkipSpace(true);
    while (!AtEnd()) {
      KVGATE_TRY_VOID(At('%') ? ParseDirective() : ParseRule());
      SkipSpace(true);
    }
    return {};
  }

 private:
  bool AtEnd() const { return at_ >= text_.size(); }
  bool At(char c) const { return !AtEnd() && text_[at_] == c; }
  bool AtText(std::string_view wanted) const { return text_.substr(at_).starts_with(wanted); }
  bool Take(char c) {
    if (!At(c)) return false;
    ++at_;
    return true;
  }
  bool TakeText(std::string_view wanted) {
    if (!AtText(wanted)) return false;
    at_ += wanted.size();
    return true;
  }

  Error ErrorOf(ErrorCode code, std::string_view what) const {
    const std::string_view before = text_.substr(0, at_);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    return MakeError(code, "grammar.lark", fmt::format("line {}: {}", line, what));
  }
  Error Invalid(std::string_view what) const { return ErrorOf(ErrorCode::kInvalidArgument, what); }
  Error Unsupported(std::string_view what) const {
    return ErrorOf(ErrorCode::kUnsupported, fmt::format("{} is not supported", what));
  }

  void SkipSpace(bool with_newlines) {
    while (!AtEnd()) {
      const char c = text_[at_];
      if (AtText("//")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (AtText("\\\n")) {
        at_ += 2;
      } else if (c == ' ' || c == '\t' || (with_newlines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  Result<std::string> TakeName() {
    if (AtEnd() || !IsNameStart(text_[at_])) return Invalid("expected a name");
    const size_t begin = at_;
    while (!AtEnd() && IsNameChar(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  Result<uint32_t> Add(LarkNode node) {
    if (rules_.nodes.size() >= limits_.parts_max) {
      return ErrorOf(ErrorCode::kTooLarge,
                     fmt::format("the grammar has more than {} parts", limits_.parts_max));
    }
    rules_.nodes.push_back(std::move(node));
    return static_cast<uint32_t>(rules_.nodes.size() - 1);
  }

  Result<void> EndLine() {
    SkipSpace(false);
    if (AtEnd() || At('\n') || At('\r')) return {};
    return Invalid("expected the end of the line");
  }

  Result<void> ParseRule() {
    while (At('?') || At('!')) ++at_;
    KVGATE_TRY(const std::string name, TakeName());
    if (At('{')) return Unsupported("a template of rules");
    if (Take('.')) {
      Take('-');
      KVGATE_TRY([[maybe_unused]] const uint32_t priority, TakeNumber());
    }
    SkipSpace(true);
    if (!Take(':')) return Invalid(fmt::format("expected : behind '{}'", name));
    KVGATE_TRY(const uint32_t body, ParseChoice(0));
    KVGATE_TRY_VOID(EndLine());
    if (!rules_.rules.try_emplace(name, body).second) {
      return Invalid(fmt::format("'{}' is there twice", name));
    }
    return {};
  }

  Result<void> ParseDirective() {
    if (TakeText("%ignore")) {
      KVGATE_TRY(const uint32_t ignored, ParseChoice(0));
      rules_.ignored.push_back(ignored);
      return EndLine();
    }
    if (!TakeText("%import")) return Unsupported("this directive");
    SkipSpace(false);
    if (!TakeText("common")) return Unsupported("an import of anything but common");
    if (Take('.')) {
      KVGATE_TRY(const std::string name, TakeName());
      KVGATE_TRY_VOID(Import(name));
      return EndLine();
    }
    SkipSpace(false);
    if (!Take('(')) return Invalid("expected . or ( behind common");
    do {
      SkipSpace(true);
      KVGATE_TRY(const std::string name, TakeName());
      KVGATE_TRY_VOID(Import(name));
      SkipSpace(true);
    } while (Take(','));
    if (!Take(')')) return Invalid("expected ) behind the names");
    return EndLine();
  }

  // Imports a terminal, under its own name or an alias, together with the terminals it uses.
  Result<void> Import(const std::string& name) {
    SkipSpace(false);
    std::string as = name;
    if (TakeText("->")) {
      SkipSpace(false);
      KVGATE_TRY(as, TakeName());
    }
    LarkRules common;
    KVGATE_TRY_VOID(LarkParser(kCommon, limits_, common).Parse());
    if (!common.rules.contains(name)) return Unsupported(fmt::format("common.{}", name));
    const auto offset = static_cast<uint32_t>(rules_.nodes.size());
    for (LarkNode& node : common.nodes) {
      for (uint32_t& child : node.children) child += offset;
      if (node.kind == LarkKind::kName) node.text = Hidden(node.text);
      KVGATE_TRY_VOID(Add(std::move(node)));
    }
    for (const auto& [rule, body] : common.rules) {
      rules_.rules.insert_or_assign(Hidden(rule), body + offset);
    }
    if (!rules_.rules.try_emplace(as, common.rules.at(name) + offset).second) {
      return Invalid(fmt::format("'{}' is there twice", as));
    }
    return {};
  }
  // A name that no grammar can define.
  static std::string Hidden(std::string_view name) { return "_COMMON." + std::string(name); }

  // Consumes a | on this line or at the beginning of a following one.
  bool TakeBar() {
    const size_t begin = at_;
    SkipSpace(true);
    if (Take('|')) return true;
    at_ = begin;
    return false;
  }

  Result<uint32_t> ParseChoice(int depth) {
    LarkNode choice{.kind = LarkKind::kChoice};
    do {
      KVGATE_TRY(const uint32_t sequence, ParseSequence(depth));
      choice.children.push_back(sequence);
    } while (TakeBar());
    return Add(std::move(choice));
  }

  Result<uint32_t> ParseSequence(int depth) {
    LarkNode sequence{.kind = LarkKind::kSequence};
    while (true) {
      SkipSpace(depth > 0);
      if (AtEnd()) break;
      const char c = text_[at_];
      if (c != '"' && c != '/' && c != '(' && c != '[' && !IsNameStart(c)) break;
      KVGATE_TRY(const uint32_t part, ParseRepeated(depth));
      sequence.children.push_back(part);
    }
    if (TakeText("->")) {  // alias, used only by parse trees
      SkipSpace(false);
      KVGATE_TRY([[maybe_unused]] const std::string name, TakeName());
    }
    return Add(std::move(sequence));
  }

  Result<uint32_t> ParseRepeated(int depth) {
    KVGATE_TRY(uint32_t part, ParsePart(depth));
    std::optional<RepeatCount> count;
    const size_t begin = at_;
    SkipSpace(false);
    if (Take('?')) {
      count = RepeatCount{.min = 0, .max = 1};
    } else if (Take('*')) {
      count = RepeatCount{};
    } else if (Take('+')) {
      count = RepeatCount{.min = 1};
    } else if (Take('~')) {
      KVGATE_TRY(count, TakeRange());
    } else {
      at_ = begin;
      return part;
    }
    return Add({.kind = LarkKind::kRepeat, .count = *count, .children = {part}});
  }

  Result<uint32_t> TakeNumber() {
    SkipSpace(false);
    const size_t begin = at_;
    uint32_t number = 0;
    while (!AtEnd() && text_[at_] >= '0' && text_[at_] <= '9') {
      number = number * 10 + static_cast<uint32_t>(text_[at_++] - '0');
      if (number > limits_.repeat_max) {
        return ErrorOf(ErrorCode::kTooLarge, fmt::format("at most {} times", limits_.repeat_max));
      }
    }
    if (at_ == begin) return Invalid("expected a number");
    return number;
  }

  Result<RepeatCount> TakeRange() {
    RepeatCount count;
    KVGATE_TRY(count.min, TakeNumber());
    count.max = count.min;
    SkipSpace(false);
    if (TakeText("..")) {
      KVGATE_TRY(count.max, TakeNumber());
    }
    if (count.max < count.min) return Invalid("the second number is less than the first");
    return count;
  }

  Result<uint32_t> ParsePart(int depth) {
    if (At('"')) return ParseText();
    if (At('/')) return ParseRegex();
    if (At('(') || At('[')) return ParseGroup(depth);
    KVGATE_TRY(std::string name, TakeName());
    if (At('{')) return Unsupported("a template of rules");
    return Add({.kind = LarkKind::kName, .text = std::move(name)});
  }

  Result<uint32_t> ParseGroup(int depth) {
    if (depth == limits_.depth_max) {
      return ErrorOf(ErrorCode::kTooLarge,
                     fmt::format("more than {} ( in each other", limits_.depth_max));
    }
    const bool optional = text_[at_++] == '[';
    KVGATE_TRY(const uint32_t inner, ParseChoice(depth + 1));
    SkipSpace(true);
    if (!Take(optional ? ']' : ')')) return Invalid("a bracket is not closed");
    if (!optional) return inner;
    return Add({.kind = LarkKind::kRepeat, .count = {.min = 0, .max = 1}, .children = {inner}});
  }

  Result<uint32_t> ParseText() {
    KVGATE_TRY(std::string text, TakeString());
    if (AtText("..")) {
      at_ += 2;
      if (!At('"')) return Invalid("expected a text behind ..");
      KVGATE_TRY(const std::string last, TakeString());
      return Add({.kind = LarkKind::kRange, .text = std::move(text) + last});
    }
    const bool any_case = At('i') && (at_ + 1 == text_.size() || !IsNameChar(text_[at_ + 1]));
    if (any_case) ++at_;
    return Add({.kind = LarkKind::kText, .text = std::move(text), .any_case = any_case});
  }

  Result<char32_t> TakeHex(size_t digits) {
    char32_t value = 0;
    for (size_t i = 0; i < digits; ++i, ++at_) {
      const int digit = AtEnd() ? -1 : HexDigit(text_[at_]);
      if (digit < 0) return Invalid("a hex digit is missing");
      value = value * 16 + static_cast<char32_t>(digit);
    }
    if (value > rules::kLastChar || (value >= 0xD800 && value < 0xE000)) {
      return Invalid("an escape that is no character");
    }
    return value;
  }

  // Escapes are read as in Python: an unknown one stays unchanged.
  Result<void> TakeEscape(std::string& text) {
    static constexpr std::string_view kNames = "nrtfv0\\\"'/";
    static constexpr std::string_view kValues("\n\r\t\f\v\0\\\"'/", 10);
    const char c = text_[at_++];
    if (const size_t index = kNames.find(c); index != std::string_view::npos) {
      text += kValues[index];
      return {};
    }
    if (c != 'x' && c != 'u' && c != 'U') {
      text += '\\';
      text += c;
      return {};
    }
    KVGATE_TRY(const char32_t value, TakeHex(c == 'x' ? 2 : c == 'u' ? 4 : 8));
    AppendUtf8(value, text);
    return {};
  }

  Result<std::string> TakeString() {
    ++at_;
    std::string text;
    while (!At('"')) {
      if (AtEnd() || At('\n')) return Invalid("a text is not closed");
      if (Take('\\')) {
        if (AtEnd()) return Invalid("a text is not closed");
        KVGATE_TRY_VOID(TakeEscape(text));
      } else {
        text += text_[at_++];
      }
    }
    ++at_;
    return text;
  }

  Result<uint32_t> ParseRegex() {
    ++at_;
    LarkNode node{.kind = LarkKind::kRegex};
    while (!At('/')) {
      if (AtEnd() || At('\n')) return Invalid("a regular expression is not closed");
      if (At('\\') && at_ + 1 < text_.size()) node.text += text_[at_++];
      node.text += text_[at_++];
    }
    ++at_;
    for (; !AtEnd() && IsNameChar(text_[at_]); ++at_) {
      const char flag = text_[at_];
      if (flag == 's') node.dot_is_all = true;
      if (flag == 'i' || flag == 'x') return Unsupported("this flag of a regular expression");
      if (flag != 's' && flag != 'm' && flag != 'l' && flag != 'u') {
        return Invalid("an unknown flag of a regular expression");
      }
    }
    return Add(std::move(node));
  }

  const std::string_view text_;
  const LarkLimits& limits_;
  size_t at_ = 0;
  LarkRules& rules_;
};

}  // namespace

Result<LarkRules> ParseLark(std::string_view text, const LarkLimits& limits) {
  LarkRules rules;
  KVGATE_TRY_VOID(LarkParser(text, limits, rules).Parse());
  if (!rules.rules.contains("start")) {
    return MakeError(ErrorCode::kInvalidArgument, "grammar.lark", "there is no rule 'start'");
  }
  return rules;
}

}  // namespace kvgate::grammar::language
