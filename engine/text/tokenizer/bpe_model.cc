#include "engine/text/tokenizer/bpe_model.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/utf8.h"
#include "engine/text/tokenizer/unicode/byte_alphabet.h"
#include "engine/text/tokenizer/vocabulary/sentencepiece_text.h"

namespace kvgate::tokenizer {

using unicode::ByteAlphabet;
using vocabulary::Symbol;
using vocabulary::TokenType;

namespace {

bool IsMergeable(TokenType type) {
  return type == TokenType::kNormal || type == TokenType::kUnused;
}

bool IsLineEnds(std::string_view word) {
  return word.find_first_not_of('\n') == std::string_view::npos;
}

}  // namespace

std::vector<std::string> BpeModel::TokenBytes(const vocabulary::Vocabulary& vocabulary,
                                              Alphabet alphabet) {
  const ByteAlphabet& bytes = ByteAlphabet::Get();
  std::vector<std::string> token_bytes;
  token_bytes.reserve(vocabulary.texts.size());
  for (size_t i = 0; i < vocabulary.texts.size(); ++i) {
    const std::string& text = vocabulary.texts[i];
    const TokenType type = vocabulary.types[i];
    const auto byte = type == TokenType::kByte ? vocabulary::ParseByteToken(text) : std::nullopt;
    if (alphabet == Alphabet::kCharacters && byte) {
      token_bytes.emplace_back(1, static_cast<char>(*byte));
    } else if (!IsMergeable(type)) {
      token_bytes.push_back(text);
    } else {
      token_bytes.push_back(alphabet == Alphabet::kBytes ? bytes.Read(text)
                                                         : vocabulary::UnescapeSpaces(text));
    }
  }
  return token_bytes;
}

BpeModel::BpeModel(const vocabulary::Vocabulary& vocabulary,
                   std::span<const std::string> token_bytes, const Options& options)
    : vocabulary_(vocabulary), options_(options), words_(vocabulary.texts.size()) {
  MakeTables();
  FillWords(token_bytes);
}

void BpeModel::MakeTables() {
  symbols_.reserve(vocabulary_.texts.size());
  for (size_t i = 0; i < vocabulary_.texts.size(); ++i) {
    if (IsMergeable(vocabulary_.types[i])) {
      symbols_.emplace(vocabulary_.texts[i], static_cast<uint32_t>(i));
    }
  }
  // Merges may also build added tokens. Control tokens never result from plain characters.
  for (size_t i = 0; i < vocabulary_.texts.size(); ++i) {
    const std::string_view text = vocabulary_.texts[i];
    if (vocabulary_.types[i] != TokenType::kUserDefined || text.empty()) continue;
    // A single character would be mistaken for the byte that it spells in the alphabet.
    if (options_.alphabet == Alphabet::kBytes && NextUtf8(text).length == text.size()) continue;
    symbols_.emplace(text, static_cast<uint32_t>(i));
  }
  std::deque<std::string> spare;  // texts of non-token symbols; a deque keeps them in place
  const auto symbol_of = [&](std::string_view text) {
    const auto found = symbols_.find(text);
    if (found != symbols_.end()) return found->second;
    const uint32_t id = static_cast<uint32_t>(vocabulary_.texts.size() + spare.size());
    spare.emplace_back(text);
    symbols_.emplace(spare.back(), id);
    return id;
  };
  const ByteAlphabet& alphabet = ByteAlphabet::Get();
  for (size_t byte = 0; byte < 256; ++byte) {
    byte_symbols_[byte] = symbol_of(alphabet.Spell(static_cast<uint8_t>(byte)));
  }
  splits_words_ = options_.alphabet == Alphabet::kCharacters;
  std::vector<vocabulary::PairMerger::Pair> pairs;
  pairs.reserve(vocabulary_.merges.size());
  std::string merged;
  for (size_t rank = 0; rank < vocabulary_.merges.size(); ++rank) {
    const auto& [left, right] = vocabulary_.merges[rank];
    merged.assign(left).append(right);
    splits_words_ = splits_words_ && !vocabulary::CrossesWords(merged);
    pairs.push_back({.left = symbol_of(left),
                     .right = symbol_of(right),
                     .rank = static_cast<uint32_t>(rank),
                     .merged = symbol_of(merged)});
  }
  merger_ = vocabulary::PairMerger(pairs);
  if (options_.alphabet == Alphabet::kCharacters) FillCharacters();
  symbols_ = {};
}

void BpeModel::FillCharacters() {
  for (const auto& [text, symbol] : symbols_) {
    if (text.empty()) continue;
    const Utf8Step step = NextUtf8(text);
    if (step.status == Utf8Status::kValid && step.length == text.size()) {
      characters_.emplace(step.code_point, symbol);
    }
  }
  byte_tokens_.fill(-1);
  for (TokenId id = 0; id < vocabulary_.size(); ++id) {
    if (const auto byte = vocabulary::ParseByteToken(vocabulary_.texts[static_cast<size_t>(id)])) {
      byte_tokens_[*byte] = id;
    }
  }
}

void BpeModel::FillWords(std::span<const std::string> token_bytes) {
  std::vector<Symbol> symbols;
  for (TokenId id = 0; id < vocabulary_.size(); ++id) {
    const size_t index = static_cast<size_t>(id);
    const bool is_spelled = options_.alphabet == Alphabet::kCharacters;
    const std::string_view word = is_spelled ? vocabulary_.texts[index] : token_bytes[index];
    if (word.empty() || !IsMergeable(vocabulary_.type(id))) continue;
    const bool is_taken_whole =
        options_.ignores_merges || (options_.keeps_line_ends && IsLineEnds(word));
    if (!is_taken_whole) {
      // A word is a shortcut only if merging its bytes gives this token, as it does for nearly all.
      MergeWord(word, symbols);
      if (symbols.size() != 1 || symbols[0].id != static_cast<uint32_t>(id)) continue;
    }
    words_.Add(word, id);
  }
}

void BpeModel::MergeWord(std::string_view word, std::vector<Symbol>& symbols) const {
  symbols.clear();
  if (options_.alphabet == Alphabet::kBytes) {
    for (const char c : word) {
      symbols.push_back({.id = byte_symbols_[static_cast<uint8_t>(c)], .length = 1});
    }
  } else {
    for (size_t position = 0; position < word.size();) {
      const Utf8Step step = NextUtf8(word.substr(position));
      Symbol symbol = {.id = Symbol::kNone, .length = step.length};
      if (step.status == Utf8Status::kValid) {
        const auto found = characters_.find(step.code_point);
        if (found != characters_.end()) symbol.id = found->second;
      }
      symbols.push_back(symbol);
      position += step.length;
    }
  }
  merger_.Merge(symbols);
}

bool BpeModel::AppendByte(uint8_t byte, TokenRun& run) const {
  if (options_.alphabet == Alphabet::kCharacters) {
    if (byte_tokens_[byte] < 0) return false;
    run.Append(byte_tokens_[byte]);
    return true;
  }
  const uint32_t symbol = byte_symbols_[byte];
  if (!is_token(symbol)) return false;
  run.Append(static_cast<TokenId>(symbol));
  return true;
}

void BpeModel::AppendLost(std::string_view bytes, TokenRun& run, bool& after_unknown) const {
  const auto has_token = [&](char c) {
    const uint8_t byte = static_cast<uint8_t>(c);
    return options_.alphabet == Alphabet::kCharacters ? byte_tokens_[byte] >= 0
                                                      : is_token(byte_symbols_[byte]);
  };
  const auto all_have_tokens = [&](std::string_view text) {
    return std::all_of(text.begin(), text.end(), has_token);
  };
  if (options_.falls_back_to_bytes && all_have_tokens(bytes)) {
    for (const char c : bytes) AppendByte(static_cast<uint8_t>(c), run);
    after_unknown = false;
    return;
  }
  // Vocabularies learnt from valid UTF-8 may lack bytes that never occur in it. Such a byte is
  // encoded as U+FFFD, because the reference implementation decodes its input that way; otherwise
  // as the unknown token, but never as a control token.
  if (options_.replaces_lost_bytes && static_cast<uint8_t>(bytes[0]) >= 0x80 &&
      all_have_tokens(kReplacementCharacter)) {
    for (const char c : kReplacementCharacter) AppendByte(static_cast<uint8_t>(c), run);
    after_unknown = false;
    return;
  }
  const std::optional<TokenId> unknown = vocabulary_.unknown;
  if (!unknown || vocabulary_.type(*unknown) != TokenType::kUnknown) return;
  if (!options_.fuses_unknown || !after_unknown) run.Append(*unknown);
  after_unknown = true;
}

void BpeModel::EncodePart(std::string_view part, std::vector<Symbol>& scratch, TokenRun& run,
                          bool& after_unknown) const {
  if (const auto token = words_.Find(part)) {
    run.Append(*token);
    after_unknown = false;
    return;
  }
  MergeWord(part, scratch);
  size_t position = 0;
  for (const Symbol& symbol : scratch) {
    const std::string_view bytes = part.substr(position, symbol.length);
    position += symbol.length;
    if (is_token(symbol.id)) {
      run.Append(static_cast<TokenId>(symbol.id));
      after_unknown = false;
    } else if (options_.alphabet == Alphabet::kCharacters) {
      AppendLost(bytes, run, after_unknown);
    } else {
      for (size_t i = 0; i < bytes.size(); ++i) AppendLost(bytes.substr(i, 1), run, after_unknown);
    }
  }
}

void BpeModel::EncodeWord(std::string_view word, std::vector<Symbol>& scratch,
                          TokenRun& run) const {
  bool after_unknown = false;
  if (!splits_words_) return EncodePart(word, scratch, run, after_unknown);
  if (const auto token = words_.Find(word)) return run.Append(*token);
  while (!word.empty()) {
    const std::string_view part = vocabulary::FirstWord(word);
    EncodePart(part, scratch, run, after_unknown);
    word.remove_prefix(part.size());
  }
}

}  // namespace kvgate::tokenizer
