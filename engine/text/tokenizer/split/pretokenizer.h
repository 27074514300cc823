// Pretokenizer: cuts text into the words that byte-level BPE merges within, as the family of models
// that `tokenizer.ggml.pre` names does. It knows no tokens. Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include <kvgate/result.h>

#include "engine/text/tokenizer/split/pretokenizer_families.h"
#include "engine/tokenizer/regex.h"
#include "engine/text/tokenizer/split/word_scanner.h"

namespace kvgate::tokenizer {

class Pretokenizer {
 public:
  // kUnsupported: detail names `name` and lists ours. "" is "default".
  static Result<std::unique_ptr<Pretokenizer>> Create(std::string_view name);

  // Appends the end offset of every word, ascending; the last is text.size(). Any bytes are taken:
  // a run of bytes that are no UTF-8 is one word. Linear in the text for every text.
  void Split(std::string_view text, std::vector<size_t>& word_ends) const;

  const PretokenizerFamily& family() const { return family_; }

 private:
  struct Pass {
    CutRule::Kind kind;
    std::variant<WordScanner, Regex> cutter;
  };
  explicit Pretokenizer(const PretokenizerFamily& family);
  void SplitValid(std::string_view text, size_t offset, const Regex::Matcher& matcher,
                  std::vector<size_t>& word_ends) const;

  const PretokenizerFamily& family_;
  std::vector<Pass> passes_;
};

}  // namespace kvgate::tokenizer
