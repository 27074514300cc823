// VocabularyTokenizer: the part that all tokenizers share: it cuts special tokens out of the text,
// passes the fragments between them to the algorithm, and maps ids to bytes by table. Thread-safe
// after construction.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer/tokenizer.h"
#include "engine/text/tokenizer/vocabulary/vocabulary.h"
#include "engine/text/tokenizer/vocabulary/word_table.h"

namespace kvgate::tokenizer {

// Collects tokens, and maps the caller's text offsets to token counts.
class TokenRun {
 public:
  explicit TokenRun(std::span<const size_t> offsets) : offsets_(offsets) {}
  void Append(TokenId token) { tokens_.push_back(token); }
  // Records that all tokens so far cover the text before `offset`. Offsets must ascend.
  void MarkEnd(size_t offset);
  MarkedTokens Finish();

 private:
  std::span<const size_t> offsets_;
  std::vector<TokenId> tokens_;
  std::vector<size_t> found_;
  size_t num_tokens_marked_ = 0;
};

class VocabularyTokenizer : public Tokenizer {
 public:
  std::vector<TokenId> Encode(std::string_view text, const EncodeOptions& options) const override;
  MarkedTokens EncodeMarked(const MarkedText& text) const override;
  std::string TokenBytes(TokenId token, bool special) const override;
  std::string Decode(std::span<const TokenId> tokens, bool special) const override;

  int vocab_size() const override { return vocabulary_.size(); }
  std::optional<TokenId> bos() const override { return vocabulary_.bos; }
  std::optional<TokenId> eos() const override { return vocabulary_.eos; }
  bool adds_bos() const override { return vocabulary_.add_bos && vocabulary_.bos; }
  bool adds_space_prefix() const override { return vocabulary_.add_space_prefix; }
  bool is_end_of_generation(TokenId token) const override;
  std::optional<TokenId> FindSpecial(std::string_view text) const override;
  std::optional<std::string_view> chat_template() const override;
  Fingerprint fingerprint() const override { return fingerprint_; }

 protected:
  // `token_bytes`: for each token of `vocabulary`, the bytes it stands for.
  VocabularyTokenizer(vocabulary::Vocabulary vocabulary, std::vector<std::string> token_bytes);

  // A part of the text without special tokens.
  struct Fragment {
    std::string_view text;      // not empty
    size_t offset = 0;          // of its first byte in the whole text
    bool after_special = true;  // at the start of the text or after a special token
  };
  virtual void EncodeFragment(const Fragment& fragment, TokenRun& run) const = 0;

  const vocabulary::Vocabulary& vocabulary() const { return vocabulary_; }
  const std::vector<std::string>& token_bytes() const { return token_bytes_; }
  const std::string& bytes_of(TokenId token) const {
    return token_bytes_[static_cast<size_t>(token)];
  }

 private:
  vocabulary::Vocabulary vocabulary_;
  std::vector<std::string> token_bytes_;
  Fingerprint fingerprint_;
};

}  // namespace kvgate::tokenizer
