// Charsmap: SentencePiece's precompiled normalisation table, which maps texts to replacements, in
// the format of model files (a size, a double array and the replacements after it). The input is
// not trusted. Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvgate::tokenizer::unicode {

class Charsmap {
 public:
  // An empty map, which never matches.
  Charsmap() = default;
  // kDataLoss: the bytes are not a valid table. `source` names the field in the error message.
  static Result<Charsmap> Parse(std::string_view bytes, std::string_view source);

  struct Match {
    size_t length = 0;  // bytes of text that are replaced
    std::string_view replacement;
  };
  // Among the rules that match at the start of `text`, return the longest or the shortest.
  std::optional<Match> Longest(std::string_view text) const { return Find(text, false); }
  std::optional<Match> Shortest(std::string_view text) const { return Find(text, true); }
  bool empty() const { return units_.empty(); }

  // SentencePiece's algorithm: from left to right, applies the longest rule, else copies the
  // character. A byte that is not UTF-8 becomes U+FFFD.
  std::string Normalize(std::string_view text) const;
  // Hugging Face's algorithm ("Precompiled"): replaces a short grapheme by the shortest rule that
  // begins it, otherwise its characters one by one.
  std::string NormalizeGraphemes(std::string_view text) const;

 private:
  std::optional<Match> Find(std::string_view text, bool shortest) const;
  uint32_t unit(size_t index) const { return index < units_.size() ? units_[index] : 0; }

  std::vector<uint32_t> units_;
  std::string replacements_;  // each ends with a zero byte
};

}  // namespace kvgate::tokenizer::unicode
