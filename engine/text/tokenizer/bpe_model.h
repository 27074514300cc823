// BpeModel: byte-pair encoding of one word by merge ranks: the tables made from a vocabulary and
// its merges. It knows neither how words are cut nor special tokens in text. Immutable;
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

#include "engine/tokenizer/pair_merger.h"
#include "engine/tokenizer/vocabulary.h"
#include "engine/tokenizer/vocabulary_tokenizer.h"
#include "engine/tokenizer/word_table.h"

namespace kvgate::tokenizer {

class BpeModel {
 public:
  enum class Alphabet {
    kBytes,       // GPT-2's: tokens are spelled with one printable character a byte
    kCharacters,  // SentencePiece's: tokens are spelled as they are, a blank as U+2581
  };
  struct Options {
    Alphabet alphabet = Alphabet::kBytes;
    bool ignores_merges = false;   // a word that is a token is that token, whatever the merges say
    bool keeps_line_ends = false;  // the same for words of nothing but \n
    // What has no token: in kCharacters first its bytes' tokens <0x0A>, where there are all; then
    // U+FFFD (as a decoder of input would have put), where that is said and can be written; then
    // the unknown token; then nothing.
    bool falls_back_to_bytes = true;
    bool replaces_lost_bytes = true;
    bool fuses_unknown = false;  // a row of unknown tokens within a word is one
  };

  // Keeps references to both, which must stay where they are. `token_bytes` as TokenBytes gives
  // them.
  BpeModel(const Vocabulary& vocabulary, std::span<const std::string> token_bytes,
           const Options& options);
  // Per token, what it stands for in text.
  static std::vector<std::string> TokenBytes(const Vocabulary& vocabulary, Alphabet alphabet);

  // `word`: in kBytes any bytes; in kCharacters with its blanks already as U+2581. `scratch` is
  // memory for use again.
  void EncodeWord(std::string_view word, std::vector<Symbol>& scratch, TokenRun& run) const;

 private:
  void MakeTables();
  void FillCharacters();
  void FillWords(std::span<const std::string> token_bytes);
  void EncodePart(std::string_view part, std::vector<Symbol>& scratch, TokenRun& run,
                  bool& after_unknown) const;
  void MergeWord(std::string_view word, std::vector<Symbol>& symbols) const;
  // What stands for bytes that are no token.
  void AppendLost(std::string_view bytes, TokenRun& run, bool& after_unknown) const;
  bool AppendByte(uint8_t byte, TokenRun& run) const;
  bool is_token(uint32_t symbol) const {
    return symbol < static_cast<uint32_t>(vocabulary_.size());
  }

  const Vocabulary& vocabulary_;
  Options options_;
  // A symbol below vocab_size is that token; a merge on the way to longer ones is a number above.
  PairMerger merger_;
  std::array<uint32_t, 256> byte_symbols_{};                // kBytes
  std::array<TokenId, 256> byte_tokens_{};                  // kCharacters: <0x0A>; -1: none
  std::unordered_map<char32_t, uint32_t> characters_;       // kCharacters
  std::unordered_map<std::string_view, uint32_t> symbols_;  // while the tables are made
  bool splits_words_ = false;  // kCharacters: no merge goes on behind a space
  WordTable words_;
};

}  // namespace kvgate::tokenizer
