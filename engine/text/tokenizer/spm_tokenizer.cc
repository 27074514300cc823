#include "engine/text/tokenizer/spm_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "engine/text/tokenizer/vocabulary/sentencepiece_text.h"

namespace kvgate::tokenizer {

using vocabulary::Symbol;
using vocabulary::TokenType;
using vocabulary::Vocabulary;

namespace {

// Real pieces are shorter (the longest known is 16 spaces, 48 bytes). The bound keeps the load time
// of a hostile file linear in its size.
constexpr size_t kPieceBytesMax = 512;

bool IsPiece(TokenType type) {
  return type == TokenType::kNormal || type == TokenType::kUserDefined ||
         type == TokenType::kUnused;
}

Result<std::vector<std::string>> ReadTokenBytes(const Vocabulary& vocabulary) {
  std::vector<std::string> token_bytes;
  token_bytes.reserve(vocabulary.texts.size());
  for (size_t i = 0; i < vocabulary.texts.size(); ++i) {
    const std::string& text = vocabulary.texts[i];
    const TokenType type = vocabulary.types[i];
    if (type == TokenType::kByte) {
      const auto byte = vocabulary::ParseByteToken(text);
      if (!byte) {
        return MakeError(ErrorCode::kDataLoss, "tokenizer",
                         fmt::format("tokenizer.ggml.tokens: token {} is of type byte but is not "
                                     "of the form <0x00>",
                                     i));
      }
      token_bytes.emplace_back(1, static_cast<char>(*byte));
      continue;
    }
    if (IsPiece(type) && text.size() > kPieceBytesMax) {
      return MakeError(ErrorCode::kUnsupported, "tokenizer",
                       fmt::format("tokenizer.ggml.tokens: token {} has {} bytes; the limit is {}",
                                   i, text.size(), kPieceBytesMax));
    }
    const bool is_escaped = type == TokenType::kNormal || type == TokenType::kUnused;
    token_bytes.push_back(is_escaped ? vocabulary::UnescapeSpaces(text) : text);
  }
  return token_bytes;
}

// Returns a rank per token: 0 for the highest score. Equal scores share a rank, so the leftmost
// pair wins.
std::vector<uint32_t> RankByScore(const std::vector<double>& scores) {
  const auto key = [&](uint32_t i) {
    return std::isnan(scores[i]) ? -std::numeric_limits<double>::infinity() : scores[i];
  };
  std::vector<uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return key(a) > key(b); });
  std::vector<uint32_t> ranks(scores.size());
  uint32_t rank = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && key(order[i]) != key(order[i - 1])) ++rank;
    ranks[order[i]] = rank;
  }
  return ranks;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> SpmTokenizer::Load(const modelfile::ModelFile& file) {
  KVGATE_TRY(Vocabulary vocabulary, vocabulary::ReadVocabulary(file, {.bos = 1,
                                                                      .eos = 2,
                                                                      .unknown = 0,
                                                                      .add_bos = true,
                                                                      .add_eos = false,
                                                                      .add_space_prefix = true}));
  if (vocabulary.scores.empty()) {
    return MakeError(ErrorCode::kDataLoss, "tokenizer",
                     "tokenizer.ggml.scores is missing; the model 'llama' merges by them");
  }
  KVGATE_TRY(std::vector<std::string> token_bytes, ReadTokenBytes(vocabulary));
  Tables tables = MakeTables(vocabulary);
  std::unique_ptr<SpmTokenizer> tokenizer(
      new SpmTokenizer(std::move(vocabulary), std::move(token_bytes), std::move(tables)));
  tokenizer->FillWords();
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

SpmTokenizer::SpmTokenizer(Vocabulary vocabulary, std::vector<std::string> token_bytes,
                           Tables tables)
    : VocabularyTokenizer(std::move(vocabulary), std::move(token_bytes)),
      tables_(std::move(tables)),
      words_(static_cast<size_t>(vocab_size())) {}

SpmTokenizer::Tables SpmTokenizer::MakeTables(const Vocabulary& vocabulary) {
  Tables tables;
  tables.splits_words = true;
  tables.byte_tokens.fill(-1);
  tables.ascii.fill(Symbol::kNone);
  std::unordered_map<std::string_view, uint32_t> symbols;
  symbols.reserve(vocabulary.texts.size());
  for (size_t i = 0; i < vocabulary.texts.size(); ++i) {
    const std::string_view text = vocabulary.texts[i];
    if (vocabulary.types[i] == TokenType::kByte) {
      tables.byte_tokens[*vocabulary::ParseByteToken(text)] = static_cast<TokenId>(i);
    }
    // Control and byte tokens are not pieces, so plain characters never merge into them.
    if (!IsPiece(vocabulary.types[i]) || text.empty()) continue;
    symbols.emplace(text, static_cast<uint32_t>(i));
    tables.splits_words = tables.splits_words && !vocabulary::CrossesWords(text);
  }
  const std::vector<uint32_t> ranks = RankByScore(vocabulary.scores);
  uint32_t next_symbol = static_cast<uint32_t>(vocabulary.texts.size());
  std::vector<std::pair<std::string_view, uint32_t>> pieces(symbols.begin(), symbols.end());
  for (const auto& [piece, id] : pieces) {
    for (size_t position = 0; position < piece.size();) {
      const Utf8Step step = NextUtf8(piece.substr(position));
      const std::string_view character = piece.substr(position, step.length);
      position += step.length;
      if (step.status != Utf8Status::kValid) continue;
      const auto [at, is_new] = symbols.emplace(character, next_symbol);
      if (is_new) ++next_symbol;
      tables.characters.emplace(step.code_point, at->second);
      if (step.code_point < 128) tables.ascii[step.code_point] = at->second;
    }
  }
  std::vector<vocabulary::PairMerger::Pair> pairs;
  for (const auto& [piece, id] : pieces) {
    for (size_t split = 1; split < piece.size(); ++split) {
      const auto left = symbols.find(piece.substr(0, split));
      if (left == symbols.end()) continue;
      const auto right = symbols.find(piece.substr(split));
      if (right == symbols.end()) continue;
      pairs.push_back(
          {.left = left->second, .right = right->second, .rank = ranks[id], .merged = id});
    }
  }
  tables.merger = vocabulary::PairMerger(pairs);
  return tables;
}

void SpmTokenizer::FillWords() {
  std::vector<Symbol> symbols;
  for (TokenId id = 0; id < vocab_size(); ++id) {
    if (!IsPiece(vocabulary().type(id))) continue;
    const std::string& piece = vocabulary().texts[static_cast<size_t>(id)];
    MergeWord(piece, symbols);
    if (symbols.size() == 1 && symbols[0].id == static_cast<uint32_t>(id)) words_.Add(piece, id);
  }
}

void SpmTokenizer::MergeWord(std::string_view word, std::vector<Symbol>& symbols) const {
  symbols.clear();
  for (size_t position = 0; position < word.size();) {
    const uint8_t first = static_cast<uint8_t>(word[position]);
    if (first < 0x80) {
      symbols.push_back({.id = tables_.ascii[first], .length = 1});
      ++position;
      continue;
    }
    const Utf8Step step = NextUtf8(word.substr(position));
    Symbol symbol = {.id = Symbol::kNone, .length = step.length};
    if (step.status == Utf8Status::kValid) {
      const auto found = tables_.characters.find(step.code_point);
      if (found != tables_.characters.end()) symbol.id = found->second;
    }
    symbols.push_back(symbol);
    position += step.length;
  }
  tables_.merger.Merge(symbols);
}

void SpmTokenizer::AppendBytes(std::string_view bytes, TokenRun& run) const {
  const bool has_bytes = std::all_of(bytes.begin(), bytes.end(), [&](char c) {
    return tables_.byte_tokens[static_cast<uint8_t>(c)] >= 0;
  });
  if (has_bytes) {
    for (const char c : bytes) run.Append(tables_.byte_tokens[static_cast<uint8_t>(c)]);
  } else if (vocabulary().unknown) {
    run.Append(*vocabulary().unknown);
  }
}

void SpmTokenizer::EncodeWord(std::string_view word, std::vector<Symbol>& symbols,
                              TokenRun& run) const {
  if (const auto token = words_.Find(word)) {
    run.Append(*token);
    return;
  }
  MergeWord(word, symbols);
  size_t position = 0;
  for (const Symbol& symbol : symbols) {
    if (is_token(symbol.id)) {
      run.Append(static_cast<TokenId>(symbol.id));
    } else {
      AppendBytes(word.substr(position, symbol.length), run);
    }
    position += symbol.length;
  }
}

void SpmTokenizer::EncodeFragment(const Fragment& fragment, TokenRun& run) const {
  std::vector<Symbol> symbols;
  std::string word;
  if (fragment.after_special && vocabulary().add_space_prefix) word = vocabulary::kSpaceMark;
  const std::string_view text = fragment.text;
  for (size_t position = 0; position < text.size(); ++position) {
    if (text[position] != ' ') {
      word.push_back(text[position]);
      continue;
    }
    // A word begins at a space that follows another character.
    if (tables_.splits_words && !word.empty() && !word.ends_with(vocabulary::kSpaceMark)) {
      EncodeWord(word, symbols, run);
      run.MarkEnd(fragment.offset + position);
      word.clear();
    }
    word.append(vocabulary::kSpaceMark);
  }
  EncodeWord(word, symbols, run);
  run.MarkEnd(fragment.offset + text.size());
}

}  // namespace kvgate::tokenizer
