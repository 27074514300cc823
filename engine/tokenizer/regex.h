// Regex: one expression under PCRE2, JIT-compiled, over valid UTF-8 with Unicode properties.
// Immutable; thread-safe (each Matcher is one thread's).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

namespace kvgate::tokenizer {

class Regex {
 public:
  // Tokenizers written in Rust use Oniguruma's dialect, whose ^ and $ stand at every line's ends
  // and whose \s is Unicode's White_Space.
  enum class Dialect { kPcre, kOniguruma };
  // kUnsupported: the expression does not compile; detail says where and why.
  static Result<Regex> Compile(std::string_view pattern, Dialect dialect = Dialect::kPcre);
  // For expressions of our own; that they compile is an invariant.
  static Regex MustCompile(std::string_view pattern);
  ~Regex();
  Regex(Regex&& other) noexcept;
  Regex& operator=(Regex&& other) noexcept;

  struct Match {
    size_t begin = 0;
    size_t end = 0;
  };
  // Scratch memory for running an expression; cheap to keep, not to make.
  class Matcher {
   public:
    Matcher();
    ~Matcher();
    Matcher(Matcher&&) noexcept;
    // The first match at or after `begin`; both {text.size(), text.size()} when there is none, or
    // where a hostile expression took too many steps. REQUIRES: text is valid UTF-8.
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

}  // namespace kvgate::tokenizer
