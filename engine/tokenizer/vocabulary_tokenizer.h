// VocabularyTokenizer: what both tokenizers share: special tokens are cut out of the text first,
// the fragments between them go to the algorithm, and ids go back to bytes by table. Thread-safe
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
#include "engine/tokenizer/vocabulary.h"
#include "engine/tokenizer/word_table.h"

namespace kvgate::tokenizer {

// Tokens as they are made, with the places of the text that a caller wants to find again.
class TokenRun {
 public:
  explicit TokenRun(std::span<const size_t> offsets) : offsets_(offsets) {}
  void Append(TokenId token) { tokens_.push_back(token); }
  // All tokens so far stand for the text before `offset`; ascending.
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
  // `token_bytes`: per token of `vocabulary`, what it stands for in text.
  VocabularyTokenizer(Vocabulary vocabulary, std::vector<std::string> token_bytes);

  // Text without special tokens.
  struct Fragment {
    std::string_view text;      // not empty
    size_t offset = 0;          // of its first byte in the whole text
    bool after_special = true;  // it begins the text or follows a special token
  };
  virtual void EncodeFragment(const Fragment& fragment, TokenRun& run) const = 0;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  const std::vector<std::string>& token_bytes() const { return token_bytes_; }
  const std::string& bytes_of(TokenId token) const {
    return token_bytes_[static_cast<size_t>(token)];
  }

 private:
  Vocabulary vocabulary_;
  std::vector<std::string> token_bytes_;
  Fingerprint fingerprint_;
};

}  // namespace kvgate::tokenizer
