// Regex: a JIT-compiled PCRE2 expression over valid UTF-8 with Unicode properties. Immutable;
// thread-safe, but a Matcher belongs to one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvgate::tokenizer::unicode {

class Regex {
 public:
  // kOniguruma is the dialect of tokenizers written in Rust: ^ and $ match at the ends of every
  // line, and \s is Unicode's White_Space.
  enum class Dialect { kPcre, kOniguruma };
  // kUnsupported: the expression does not compile; detail says where and why.
  static Result<Regex> Compile(std::string_view pattern, Dialect dialect = Dialect::kPcre);
  // For built-in expressions, which must compile.
  static Regex MustCompile(std::string_view pattern);
  ~Regex();
  Regex(Regex&& other) noexcept;
  Regex& operator=(Regex&& other) noexcept;

  struct Match {
    size_t begin = 0;
    size_t end = 0;
  };
  // Scratch memory for matching. It is expensive to create, so callers should reuse it.
  class Matcher {
   public:
    Matcher();
    ~Matcher();
    Matcher(Matcher&&) noexcept;
    // Returns the first match at or after `begin`, or {text.size(), text.size()} if there is none
    // or if a hostile expression took too many steps. REQUIRES: text is valid UTF-8.
    Match Next(const Regex& regex, std::string_view text, size_t begin) const;

   private:
    struct Scratch;
    std::unique_ptr<Scratch> scratch_;
  };

 private:
  Regex() = default;
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace kvgate::tokenizer::unicode
