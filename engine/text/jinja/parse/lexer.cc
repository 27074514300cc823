#include "engine/text/jinja/parse/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/hex.h"
#include "base/utf8.h"
#include "engine/text/jinja/value/unicode.h"

namespace kvgate::jinja::parse {

using syntax::Failure;
using syntax::Token;
using syntax::TokenKind;
using value::DecodeAt;

namespace {

constexpr size_t kNowhere = std::string_view::npos;

// Longest operators first.
constexpr std::pair<std::string_view, TokenKind> kOperators[] = {
    {"//", TokenKind::kFloorDivide},
    {"**", TokenKind::kPower},
    {"==", TokenKind::kEqual},
    {"!=", TokenKind::kNotEqual},
    {">=", TokenKind::kGreaterEqual},
    {"<=", TokenKind::kLessEqual},
    {"+", TokenKind::kAdd},
    {"-", TokenKind::kSubtract},
    {"/", TokenKind::kDivide},
    {"*", TokenKind::kMultiply},
    {"%", TokenKind::kModulo},
    {"~", TokenKind::kTilde},
    {"[", TokenKind::kLeftBracket},
    {"]", TokenKind::kRightBracket},
    {"(", TokenKind::kLeftParenthesis},
    {")", TokenKind::kRightParenthesis},
    {"{", TokenKind::kLeftBrace},
    {"}", TokenKind::kRightBrace},
    {">", TokenKind::kGreater},
    {"<", TokenKind::kLess},
    {"=", TokenKind::kAssign},
    {".", TokenKind::kDot},
    {":", TokenKind::kColon},
    {"|", TokenKind::kPipe},
    {",", TokenKind::kComma},
    {";", TokenKind::kSemicolon}};

bool IsAsciiDigit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  syntax::Outcome<std::vector<Token>> Run() {
    while (at_ < source_.size()) {
      if (!LexText()) return tl::unexpected(std::move(failure_));
    }
    Push(TokenKind::kEnd, source_.size());
    return std::move(tokens_);
  }

 private:
  bool Fail(size_t offset, std::string message) {
    failure_ = MakeFailure(Failure::Kind::kSyntax, source_, offset, std::move(message));
    return false;
  }
  bool LooksAt(size_t at, std::string_view text) const {
    return source_.substr(std::min(at, source_.size())).starts_with(text);
  }
  char CharAt(size_t at) const { return at < source_.size() ? source_[at] : '\0'; }
  size_t SkipSpace(size_t at) const {
    while (at < source_.size()) {
      const value::Decoded decoded = DecodeAt(source_, at);
      if (!value::IsSpace(decoded.code)) break;
      at += decoded.size;
    }
    return at;
  }
  Token& Push(TokenKind kind, size_t offset) {
    tokens_.push_back({.kind = kind, .offset = offset});
    return tokens_.back();
  }
  // Continues after a tag that ends at `end`.
  void Advance(size_t end) {
    line_starting_ = end > 0 && source_[end - 1] == '\n';
    at_ = end;
  }

  void PushData(size_t begin, std::string_view text) {
    if (!text.empty()) Push(TokenKind::kData, begin).text = text;
  }
  // Pushes the text before a tag, stripped according to the tag's sign and lstrip_blocks.
  void PushTextBefore(size_t begin, size_t end, char sign, bool strips_line) {
    std::string_view text = source_.substr(begin, end - begin);
    if (sign == '-') {
      while (!text.empty()) {
        const size_t last = value::CharacterBefore(text, text.size());
        if (!value::IsSpace(DecodeAt(text, last).code)) break;
        text = text.substr(0, last);
      }
    } else if (sign != '+' && strips_line) {
      const size_t newline = text.rfind('\n');
      const size_t line = newline == kNowhere ? 0 : newline + 1;
      if ((line > 0 || line_starting_) && SkipSpace(begin + line) >= end) {
        text = text.substr(0, line);
      }
    }
    PushData(begin, text);
  }

  bool LexText();
  bool LexComment(size_t begin);
  bool LexRaw(size_t begin, size_t body);
  bool LexTag(size_t begin, bool is_block);
  bool LexToken();
  // Returns the offset after a tag end at `at`, including trimmed space, or nothing if no tag ends
  // there.
  std::optional<size_t> EndOfTag(size_t at, std::string_view end, bool trims, bool plus) const;
  // Returns the offset after "raw -%}" and the like, or nothing if this is not a raw block.
  std::optional<size_t> RawBody(size_t at) const;

  void LexName();
  bool LexNumber();
  bool LexInteger();
  bool LexString(char quote);
  bool LexOperator();
  bool Unescape(std::string_view text, size_t offset, std::string& out);
  bool UnescapeOne(std::string_view text, size_t& at, size_t offset, std::string& out);
  bool UnescapeHex(std::string_view text, size_t& at, size_t offset, std::string& out);
  size_t Digits(size_t at) const;

  std::string_view source_;
  size_t at_ = 0;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
  std::vector<std::pair<char, size_t>> open_;  // the closing bracket, and where it was opened
  Failure failure_;
};

std::optional<size_t> Lexer::EndOfTag(size_t at, std::string_view end, bool trims,
                                      bool plus) const {
  if (LooksAt(at, "-") && LooksAt(at + 1, end)) return SkipSpace(at + 1 + end.size());
  if (plus && LooksAt(at, "+") && LooksAt(at + 1, end)) return at + 1 + end.size();
  if (!LooksAt(at, end)) return std::nullopt;
  at += end.size();
  return trims && CharAt(at) == '\n' ? at + 1 : at;
}

std::optional<size_t> Lexer::RawBody(size_t at) const {
  at = SkipSpace(at);
  if (!LooksAt(at, "raw")) return std::nullopt;
  return EndOfTag(SkipSpace(at + 3), "%}", false, false);
}

// Lexes text up to the next tag, and that tag.
bool Lexer::LexText() {
  const size_t begin = at_;
  size_t tag = begin;
  for (;; ++tag) {
    tag = source_.find('{', tag);
    if (tag == kNowhere || tag + 1 >= source_.size()) {
      PushData(begin, source_.substr(begin));
      at_ = source_.size();
      return true;
    }
    const char kind = source_[tag + 1];
    if (kind == '%' || kind == '{' || kind == '#') break;
  }
  const char kind = source_[tag + 1];
  const char mark = CharAt(tag + 2);
  const char sign = mark == '-' || mark == '+' ? mark : '\0';
  const size_t inside = tag + (sign == '\0' ? 2 : 3);
  PushTextBefore(begin, tag, sign, kind != '{');
  at_ = inside;
  if (kind == '#') return LexComment(tag);
  if (kind == '%') {
    if (const auto body = RawBody(inside); body) return LexRaw(tag, *body);
  }
  return LexTag(tag, kind == '%');
}

bool Lexer::LexComment(size_t begin) {
  if (at_ >= source_.size()) return true;  // Jinja2 accepts "{#" at the very end
  const size_t end = source_.find("#}", at_);
  if (end == kNowhere) return Fail(begin, "Missing end of comment tag");
  const char sign = end > at_ ? source_[end - 1] : '\0';
  const size_t mark = sign == '-' || sign == '+' ? end - 1 : end;
  Advance(*EndOfTag(mark, "#}", true, true));
  return true;
}

bool Lexer::LexRaw(size_t begin, size_t body) {
  Advance(body);
  if (body >= source_.size()) return true;
  for (size_t tag = source_.find("{%", body); tag != kNowhere; tag = source_.find("{%", tag + 1)) {
    const char mark = CharAt(tag + 2);
    const char sign = mark == '-' || mark == '+' ? mark : '\0';
    const size_t word = SkipSpace(tag + (sign == '\0' ? 2 : 3));
    if (!LooksAt(word, "endraw")) continue;
    const auto end = EndOfTag(SkipSpace(word + 6), "%}", true, true);
    if (!end) continue;
    PushTextBefore(body, tag, sign, true);
    Advance(*end);
    return true;
  }
  return Fail(begin, "Missing end of raw directive");
}

bool Lexer::LexTag(size_t begin, bool is_block) {
  const std::string_view end = is_block ? "%}" : "}}";
  Push(is_block ? TokenKind::kBlockBegin : TokenKind::kPrintBegin, begin);
  open_.clear();
  for (;;) {
    at_ = SkipSpace(at_);
    if (open_.empty()) {
      if (const auto behind = EndOfTag(at_, end, is_block, is_block); behind) {
        Push(is_block ? TokenKind::kBlockEnd : TokenKind::kPrintEnd, at_);
        Advance(*behind);
        return true;
      }
    }
    if (at_ >= source_.size()) {
      if (!open_.empty()) {
        return Fail(open_.back().second,
                    fmt::format("'{}' was never closed", source_[open_.back().second]));
      }
      return Fail(begin, fmt::format("the tag is not closed: no '{}'", end));
    }
    if (!LexToken()) return false;
  }
}

bool Lexer::LexToken() {
  const char c = source_[at_];
  if (IsAsciiDigit(c)) return LexNumber();
  if (c == '\'' || c == '"') return LexString(c);
  const value::Decoded decoded = DecodeAt(source_, at_);
  if (c == '_' || value::IsAlpha(decoded.code)) {
    LexName();
    return true;
  }
  return LexOperator();
}

void Lexer::LexName() {
  const size_t begin = at_;
  while (at_ < source_.size()) {
    const value::Decoded decoded = DecodeAt(source_, at_);
    if (source_[at_] != '_' && !value::IsAlnum(decoded.code)) break;
    at_ += decoded.size;
  }
  Push(TokenKind::kName, begin).text = source_.substr(begin, at_ - begin);
}

// Matches (\d+_)*\d+ from `at`. Returns its end, or `at` if there is no match.
size_t Lexer::Digits(size_t at) const {
  size_t end = at;
  while (IsAsciiDigit(CharAt(end)) ||
         (CharAt(end) == '_' && end > at && IsAsciiDigit(CharAt(end + 1)))) {
    ++end;
  }
  return end;
}

bool Lexer::LexNumber() {
  const size_t begin = at_;
  size_t end = Digits(begin);
  bool is_float = false;
  if (begin == 0 || source_[begin - 1] != '.') {
    if (CharAt(end) == '.' && IsAsciiDigit(CharAt(end + 1))) {
      end = Digits(end + 1);
      is_float = true;
    }
    if ((CharAt(end) | 0x20) == 'e') {
      const size_t sign = end + 1;
      const size_t digits = CharAt(sign) == '+' || CharAt(sign) == '-' ? sign + 1 : sign;
      if (IsAsciiDigit(CharAt(digits))) {
        end = Digits(digits);
        is_float = true;
      }
    }
  }
  if (!is_float) return LexInteger();
  std::string digits(source_.substr(begin, end - begin));
  std::erase(digits, '_');
  double number = 0;
  const auto [rest, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (code == std::errc::result_out_of_range) {
    const size_t exponent = digits.find_first_of("eE");
    const bool tiny = exponent != std::string::npos && digits[exponent + 1] == '-';
    number = tiny ? 0.0 : HUGE_VAL;
  }
  Push(TokenKind::kFloat, begin).number = number;
  at_ = end;
  return true;
}

bool Lexer::LexInteger() {
  const size_t begin = at_;
  const char prefix = static_cast<char>(CharAt(begin + 1) | 0x20);
  int base = 10;
  if (source_[begin] == '0') base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
  const auto is_digit = [base](char c) {
    if (base == 16) return IsHexDigit(c);
    return c >= '0' && c < '0' + base;
  };
  size_t end = base == 10 ? begin : begin + 2;
  if (base != 10 && !is_digit(CharAt(end)) && !(CharAt(end) == '_' && is_digit(CharAt(end + 1)))) {
    base = 10;
    end = begin;
  }
  const bool zeros = base == 10 && source_[begin] == '0';  // "007" is lexed as 00 and 7
  const auto fits = [&](char c) { return zeros ? c == '0' : is_digit(c); };
  while (fits(CharAt(end)) || (CharAt(end) == '_' && end > begin && fits(CharAt(end + 1)))) ++end;
  std::string digits(source_.substr(begin, end - begin));
  if (base != 10) digits.erase(0, 2);
  std::erase(digits, '_');
  int64_t integer = 0;
  const auto [rest, code] =
      std::from_chars(digits.data(), digits.data() + digits.size(), integer, base);
  if (code != std::errc()) return Fail(begin, "the integer does not fit in 64 bits");
  Push(TokenKind::kInteger, begin).integer = integer;
  at_ = end;
  return true;
}

bool Lexer::LexString(char quote) {
  const size_t begin = at_;
  size_t end = begin + 1;
  while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
  if (end >= source_.size()) return Fail(begin, "the string is not closed");
  std::string text;
  if (!Unescape(source_.substr(begin + 1, end - begin - 1), begin + 1, text)) return false;
  Push(TokenKind::kString, begin).text = std::move(text);
  at_ = end + 1;
  return true;
}

bool Lexer::Unescape(std::string_view text, size_t offset, std::string& out) {
  for (size_t at = 0; at < text.size();) {
    const size_t escape = std::min(text.find('\\', at), text.size());
    out += text.substr(at, escape - at);
    at = escape;
    if (at < text.size() && !UnescapeOne(text, at, offset, out)) return false;
  }
  return true;
}

// Behaves as Python's unicode-escape codec: unknown escapes stay unchanged.
bool Lexer::UnescapeOne(std::string_view text, size_t& at, size_t offset, std::string& out) {
  constexpr std::string_view kNames = "abfnrtv\\'\"";
  constexpr std::string_view kCodes = "\a\b\f\n\r\t\v\\'\"";
  const char c = text[at + 1];
  if (const size_t name = kNames.find(c); name != kNowhere) {
    out += kCodes[name];
    at += 2;
  } else if (c == '\n') {
    at += 2;
  } else if (c >= '0' && c <= '7') {
    char32_t code = 0;
    size_t end = at + 1;
    while (end < text.size() && end < at + 4 && text[end] >= '0' && text[end] <= '7') {
      code = code * 8 + static_cast<char32_t>(text[end++] - '0');
    }
    AppendUtf8(code, out);
    at = end;
  } else if (c == 'x' || c == 'u' || c == 'U') {
    return UnescapeHex(text, at, offset, out);
  } else if (c == 'N') {
    return Fail(offset + at, "characters by name (\\N{…}) are not supported");
  } else {
    out += '\\';
    at += 1;
  }
  return true;
}

bool Lexer::UnescapeHex(std::string_view text, size_t& at, size_t offset, std::string& out) {
  const char kind = text[at + 1];
  const size_t wanted = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
  uint32_t code = 0;
  const std::string_view digits = text.substr(at + 2, wanted);
  const bool whole =
      digits.size() == wanted && std::all_of(digits.begin(), digits.end(), IsHexDigit);
  if (!whole) return Fail(offset + at, fmt::format("truncated \\{} escape", kind));
  std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
    return Fail(offset + at, fmt::format("\\{}{} is no character", kind, digits));
  }
  AppendUtf8(code, out);
  at += 2 + wanted;
  return true;
}

bool Lexer::LexOperator() {
  for (const auto& [text, kind] : kOperators) {
    if (!LooksAt(at_, text)) continue;
    const char c = text[0];
    if (c == '(' || c == '[' || c == '{') {
      if (open_.size() >= 10 * 1000) return Fail(at_, "too many open brackets");
      open_.emplace_back(c == '(' ? ')' : c == '[' ? ']' : '}', at_);
    } else if (c == ')' || c == ']' || c == '}') {
      if (open_.empty()) return Fail(at_, fmt::format("unexpected '{}'", c));
      const char wanted = open_.back().first;
      open_.pop_back();
      if (c != wanted) return Fail(at_, fmt::format("unexpected '{}', expected '{}'", c, wanted));
    }
    Push(kind, at_);
    at_ += text.size();
    return true;
  }
  const size_t size = DecodeAt(source_, at_).size;
  return Fail(at_, fmt::format("unexpected char '{}'", source_.substr(at_, size)));
}

}  // namespace

Failure MakeFailure(Failure::Kind kind, std::string_view source, size_t offset,
                    std::string message) {
  const std::string_view before = source.substr(0, std::min(offset, source.size()));
  const size_t newline = before.rfind('\n');
  const size_t line_begin = newline == kNowhere ? 0 : newline + 1;
  return {.kind = kind,
          .line = 1 + static_cast<int>(std::count(before.begin(), before.end(), '\n')),
          .column = 1 + static_cast<int>(CountUtf8Characters(before.substr(line_begin))),
          .message = std::move(message)};
}

std::string NormalizeSource(std::string_view source) {
  std::string normalized;
  normalized.reserve(source.size());
  for (size_t at = 0; at < source.size(); ++at) {
    if (source[at] != '\r') {
      normalized += source[at];
      continue;
    }
    normalized += '\n';
    if (at + 1 < source.size() && source[at + 1] == '\n') ++at;
  }
  if (!normalized.empty() && normalized.back() == '\n') normalized.pop_back();
  return normalized;
}

syntax::Outcome<std::vector<Token>> Tokenize(std::string_view source) {
  return Lexer(source).Run();
}

std::string_view TokenKindName(TokenKind kind) {
  switch (kind) {
    case TokenKind::kData:
      return "template text";
    case TokenKind::kPrintBegin:
      return "'{{'";
    case TokenKind::kPrintEnd:
      return "end of print statement";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kBlockEnd:
      return "end of statement block";
    case TokenKind::kName:
      return "name";
    case TokenKind::kString:
      return "string";
    case TokenKind::kInteger:
      return "integer";
    case TokenKind::kFloat:
      return "float";
    case TokenKind::kEnd:
      return "end of template";
    default:
      break;
  }
  for (const auto& [text, known] : kOperators) {
    if (known == kind) return text;
  }
  return "token";
}

}  // namespace kvgate::jinja::parse
