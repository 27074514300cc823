#include "engine/text/tokenizer/unicode/regex.h"

#include "base/check.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <cstdint>
#include <limits>
#include <utility>

namespace kvgate::tokenizer::unicode {
namespace {

// Limit on the steps of one match. Built-in expressions are linear and need no limit. An expression
// from a file gets what a linear one may need for a megabyte of text, a fraction of a second.
constexpr uint32_t kStepsMax = 20'000'000;

// Unicode's White_Space for use inside a class. PCRE2's \s also has U+180E, which has not been
// white space since Unicode 6.3.
constexpr std::string_view kSpace = "\\t-\\r\\x{85}\\p{Z}";

// Oniguruma's \w for use inside a class. PCRE2's lacks marks. Among the numbers that are not digits
// it contains those of Latin-1.
constexpr std::string_view kWord =
    "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";

// Translates an Oniguruma expression to PCRE2. Syntax common to both is copied.
Result<std::string> FromOniguruma(std::string_view pattern) {
  std::string out;
  int depth = 0;  // nesting of [
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next == 's' || next == 'w') {
        const std::string_view inside = next == 's' ? kSpace : kWord;
        out += depth > 0 ? std::string(inside) : fmt::format("[{}]", inside);
      } else if ((next == 'S' || next == 'W') && depth == 0) {
        out += fmt::format("[^{}]", next == 'S' ? kSpace : kWord);
      } else if (next == 'h' || next == 'H') {
        return MakeError(ErrorCode::kUnsupported, "tokenizer",
                         fmt::format("the expression '{}' uses \\{}", pattern, next));
      } else {
        out += {c, next};
      }
      continue;
    }
    if (c == '&' && depth > 0 && pattern.substr(i).starts_with("&&")) {
      return MakeError(ErrorCode::kUnsupported, "tokenizer",
                       fmt::format("the expression '{}' intersects classes with &&", pattern));
    }
    // A class inside a class is a union, which PCRE2 lacks; dropping the inner brackets has the
    // same effect.
    if (c == '[') {
      const bool is_posix = depth > 0 && pattern.substr(i).starts_with("[:");
      if (depth > 0 && !is_posix && pattern.substr(i).starts_with("[^")) {
        return MakeError(
            ErrorCode::kUnsupported, "tokenizer",
            fmt::format("the expression '{}' has a negated class inside a class", pattern));
      }
      if (depth == 0 || is_posix) out += c;
      ++depth;
      // A ] that comes first is an ordinary character.
      if (depth == 1) {
        if (pattern.substr(i + 1).starts_with('^')) out += pattern[++i];
        if (pattern.substr(i + 1).starts_with(']')) out += "\\]", ++i;
      }
      continue;
    }
    if (c == ']' && depth > 0) {
      --depth;
      if (depth == 0 || out.ends_with(':')) out += c;
      continue;
    }
    out += c;
  }
  return out;
}

}  // namespace

struct Regex::Code {
  ~Code() { pcre2_code_free(code); }
  pcre2_code* code = nullptr;
  bool is_native = false;  // compiled to machine code
  bool is_ours = false;    // built in, hence linear: no step limit
};

struct Regex::Matcher::Scratch {
  ~Scratch() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }
  pcre2_match_data* data = nullptr;
  pcre2_match_context* context = nullptr;
};

Regex::~Regex() = default;
Regex::Regex(Regex&& other) noexcept = default;
Regex& Regex::operator=(Regex&& other) noexcept = default;

Result<Regex> Regex::Compile(std::string_view pattern, Dialect dialect) {
  constexpr size_t kPatternBytesMax = 1 << 16;
  if (pattern.size() > kPatternBytesMax) {
    return MakeError(ErrorCode::kUnsupported, "tokenizer",
                     fmt::format("an expression has {} bytes; the limit is {}", pattern.size(),
                                 kPatternBytesMax));
  }
  std::string translated(pattern);
  uint32_t options = PCRE2_UTF | PCRE2_UCP;
  if (dialect == Dialect::kOniguruma) {
    KVGATE_TRY(translated, FromOniguruma(pattern));
    options |= PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  }
  int error = 0;
  PCRE2_SIZE offset = 0;
  Regex regex;
  regex.code_ = std::make_unique<Code>();
  regex.code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()),
                                    translated.size(), options, &error, &offset, nullptr);
  if (regex.code_->code == nullptr) {
    PCRE2_UCHAR message[128] = {};
    pcre2_get_error_message(error, message, sizeof(message));
    return MakeError(ErrorCode::kUnsupported, "tokenizer",
                     fmt::format("the expression '{}' does not compile: {} at offset {}", pattern,
                                 reinterpret_cast<const char*>(message), offset));
  }
  regex.code_->is_native = pcre2_jit_compile(regex.code_->code, PCRE2_JIT_COMPLETE) == 0;
  return regex;
}

Regex Regex::MustCompile(std::string_view pattern) {
  Result<Regex> regex = Compile(pattern);
  KVGATE_CHECK(regex, "a built-in expression does not compile");
  regex->code_->is_ours = true;
  return std::move(*regex);
}

Regex::Matcher::Matcher() : scratch_(std::make_unique<Scratch>()) {
  scratch_->data = pcre2_match_data_create(1, nullptr);
  scratch_->context = pcre2_match_context_create(nullptr);
  KVGATE_CHECK(scratch_->data != nullptr && scratch_->context != nullptr, "out of memory");
}

Regex::Matcher::~Matcher() = default;
Regex::Matcher::Matcher(Matcher&&) noexcept = default;

Regex::Match Regex::Matcher::Next(const Regex& regex, std::string_view text, size_t begin) const {
  const Code& code = *regex.code_;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  pcre2_set_match_limit(scratch_->context,
                        code.is_ours ? std::numeric_limits<uint32_t>::max() : kStepsMax);
  int count = PCRE2_ERROR_JIT_STACKLIMIT;
  if (code.is_native) {
    count = pcre2_jit_match(code.code, subject, text.size(), begin, PCRE2_NO_UTF_CHECK,
                            scratch_->data, scratch_->context);
  }
  // The interpreter keeps its stack on the heap, so it can handle matches that overflow the JIT
  // stack.
  if (count == PCRE2_ERROR_JIT_STACKLIMIT) {
    count = pcre2_match(code.code, subject, text.size(), begin, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                        scratch_->data, scratch_->context);
  }
  if (count < 0) {
    KVGATE_CHECK(count == PCRE2_ERROR_NOMATCH || !code.is_ours,
                 "a built-in expression failed on valid UTF-8");
    return {text.size(), text.size()};
  }
  const PCRE2_SIZE* span = pcre2_get_ovector_pointer(scratch_->data);
  // \K inside a lookahead can put the end before the start.
  if (span[1] < span[0] || span[0] < begin) return {text.size(), text.size()};
  return {span[0], span[1]};
}

}  // namespace kvgate::tokenizer::unicode
