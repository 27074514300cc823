// Pretokenizer: cuts text into the words that byte-level BPE merges within, by the regular
// expressions that `tokenizer.ggml.pre` names. It knows no tokens. Immutable; thread-safe.
//
// Each expression cuts what the ones before it left: a match is a word, and so is what lies between
// matches. Expressions run under PCRE2, JIT-compiled, with Unicode properties.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

namespace kvgate::tokenizer {

class Pretokenizer {
 public:
  // kUnsupported: detail names `name` and lists ours. "" is "default".
  static Result<std::unique_ptr<Pretokenizer>> Create(std::string_view name);
  ~Pretokenizer();
  Pretokenizer(const Pretokenizer&) = delete;
  Pretokenizer& operator=(const Pretokenizer&) = delete;

  // Appends the end offset of every word, ascending; the last is text.size(). Any bytes are taken:
  // a run of bytes that are no UTF-8 is one word. Linear in the text for every text.
  void Split(std::string_view text, std::vector<size_t>& word_ends) const;

  // A word that is in the vocabulary is that token, whatever the merges say (the llama 3 rule).
  bool ignores_merges() const { return ignores_merges_; }
  bool adds_bos() const { return adds_bos_; }

 private:
  struct Expression;
  class Matcher;
  Pretokenizer();
  void SplitValid(std::string_view text, size_t offset, std::vector<Matcher>& matchers,
                  std::vector<size_t>& word_ends) const;

  std::vector<std::unique_ptr<Expression>> expressions_;
  bool ignores_merges_ = false;
  bool adds_bos_ = false;
};

}  // namespace kvgate::tokenizer
