// BpeModel: byte-pair encoding of one word by merge ranks, with tables built from a vocabulary and
// its merges. It does not split text into words, and does not look for special tokens. Immutable;
// thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/text/tokenizer/vocabulary/pair_merger.h"
#include "engine/text/tokenizer/vocabulary/vocabulary.h"
#include "engine/text/tokenizer/vocabulary/word_table.h"
#include "engine/text/tokenizer/vocabulary_tokenizer.h"

namespace kvgate::tokenizer {

class BpeModel {
 public:
  enum class Alphabet {
    kBytes,       // GPT-2: one printable character per byte
    kCharacters,  // SentencePiece: plain text, a space is U+2581
  };
  struct Options {
    Alphabet alphabet = Alphabet::kBytes;
    bool ignores_merges = false;   // a word that is a token is never split
    bool keeps_line_ends = false;  // the same for words that consist only of \n
    // Replacements for text without a token, in this order: the byte tokens <0x0A> (kCharacters
    // only, and only if all its bytes have one); U+FFFD, if enabled and it has tokens; the unknown
    // token; else it is dropped.
    bool falls_back_to_bytes = true;
    bool replaces_lost_bytes = true;
    bool fuses_unknown = false;  // adjacent unknown tokens in a word become one
  };

  // Keeps references to both arguments, which must outlive the model. `token_bytes` comes from
  // TokenBytes.
  BpeModel(const vocabulary::Vocabulary& vocabulary, std::span<const std::string> token_bytes,
           const Options& options);
  // Returns, for each token, the bytes it stands for in text.
  static std::vector<std::string> TokenBytes(const vocabulary::Vocabulary& vocabulary,
                                             Alphabet alphabet);

  // `word`: arbitrary bytes for kBytes; text with spaces already written as U+2581 for kCharacters.
  // `scratch` is reusable working memory.
  void EncodeWord(std::string_view word, std::vector<vocabulary::Symbol>& scratch,
                  TokenRun& run) const;

 private:
  void MakeTables();
  void FillCharacters();
  void FillWords(std::span<const std::string> token_bytes);
  void EncodePart(std::string_view part, std::vector<vocabulary::Symbol>& scratch, TokenRun& run,
                  bool& after_unknown) const;
  void MergeWord(std::string_view word, std::vector<vocabulary::Symbol>& symbols) const;
  // Appends the replacement for bytes that have no token.
  void AppendLost(std::string_view bytes, TokenRun& run, bool& after_unknown) const;
  bool AppendByte(uint8_t byte, TokenRun& run) const;
  bool is_token(uint32_t symbol) const {
    return symbol < static_cast<uint32_t>(vocabulary_.size());
  }

  const vocabulary::Vocabulary& vocabulary_;
  Options options_;
  // Symbols below vocab_size are tokens; higher ones are intermediate merges that are not tokens.
  vocabulary::PairMerger merger_;
  std::array<uint32_t, 256> byte_symbols_{};                // kBytes
  std::array<TokenId, 256> byte_tokens_{};                  // kCharacters: <0x0A>; -1: none
  std::unordered_map<char32_t, uint32_t> characters_;       // kCharacters
  std::unordered_map<std::string_view, uint32_t> symbols_;  // used only while the tables are built
  bool splits_words_ = false;  // kCharacters: no merge crosses into the next word
  vocabulary::WordTable words_;
};

}  // namespace kvgate::tokenizer
