// Pretokenizer: splits text into the words within which byte-level BPE merges, by the rules of the
// model family that `tokenizer.ggml.pre` names. It knows no tokens. Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "engine/text/tokenizer/split/pretokenizer_families.h"
#include "engine/text/tokenizer/split/word_scanner.h"
#include "engine/text/tokenizer/unicode/regex.h"

namespace kvgate::tokenizer::split {

class Pretokenizer {
 public:
  // kUnsupported: the detail names `name` and lists the supported ones. "" means "default".
  static Result<std::unique_ptr<Pretokenizer>> Create(std::string_view name);

  // Appends the end offset of every word, ascending; the last is text.size(). The text may be any
  // bytes: a run of bytes that are not UTF-8 is one word. Linear time for every text.
  void Split(std::string_view text, std::vector<size_t>& word_ends) const;

  const PretokenizerFamily& family() const { return family_; }

 private:
  struct Pass {
    CutRule::Kind kind;
    std::variant<WordScanner, unicode::Regex> cutter;
  };
  explicit Pretokenizer(const PretokenizerFamily& family);
  void SplitValid(std::string_view text, size_t offset, const unicode::Regex::Matcher& matcher,
                  std::vector<size_t>& word_ends) const;

  const PretokenizerFamily& family_;
  std::vector<Pass> passes_;
};

}  // namespace kvgate::tokenizer::split
