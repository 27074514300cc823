// Charsmap: SentencePiece's precompiled normalisation: a table from texts to replacements, as it
// lies in model files (an XOR-compressed double array and the replacements behind it). Nothing in
// it is trusted. Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

namespace kvgate::tokenizer {

class Charsmap {
 public:
  // No rules: nothing ever matches.
  Charsmap() = default;
  // kDataLoss: the bytes are no such table. `source` names the field, for the message.
  static Result<Charsmap> Parse(std::string_view bytes, std::string_view source);

  struct Match {
    size_t length = 0;  // of text that is replaced
    std::string_view replacement;
  };
  // The rules that begin at the start of `text`: of several the longest or the shortest.
  std::optional<Match> Longest(std::string_view text) const { return Find(text, false); }
  std::optional<Match> Shortest(std::string_view text) const { return Find(text, true); }
  bool empty() const { return units_.empty(); }

  // SentencePiece's own way: from left to right, the longest rule, else the character as it is; a
  // byte that is no UTF-8 becomes U+FFFD.
  std::string Normalize(std::string_view text) const;
  // Hugging Face's way ("Precompiled"): a short grapheme by the shortest rule that begins it, else
  // its characters one by one.
  std::string NormalizeGraphemes(std::string_view text) const;

 private:
  std::optional<Match> Find(std::string_view text, bool shortest) const;
  uint32_t unit(size_t index) const { return index < units_.size() ? units_[index] : 0; }

  std::vector<uint32_t> units_;
  std::string replacements_;  // each ends with a zero byte
};

}  // namespace kvgate::tokenizer
