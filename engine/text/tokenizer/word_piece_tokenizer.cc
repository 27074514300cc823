#include "engine/text/tokenizer/word_piece_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "engine/text/tokenizer/unicode/char_class.h"
#include "engine/text/tokenizer/unicode/unicode_text.h"
#include "engine/text/tokenizer/vocabulary/sentencepiece_text.h"

namespace kvgate::tokenizer {

using unicode::CharClass;
using unicode::CharClassTable;
using vocabulary::ByteTrie;
using vocabulary::kSpaceMark;
using vocabulary::TokenType;
using vocabulary::Vocabulary;

namespace {

// The ids of BERT's own vocabularies, for files that do not name them.
constexpr TokenId kUnknown = 100;
constexpr TokenId kClassify = 101;
constexpr TokenId kSeparate = 102;

// Returns the id under the first of these keys that the file has.
Result<TokenId> ReadSpecial(const modelfile::ModelFile& file,
                            std::initializer_list<std::string_view> names, TokenId fallback,
                            int vocab_size) {
  int64_t id = fallback;
  std::string named = fmt::format("tokenizer.ggml.{}", *names.begin());
  for (const std::string_view name : names) {
    const std::string key = fmt::format("tokenizer.ggml.{}", name);
    if (file.Find(key) == nullptr) continue;
    KVGATE_TRY(id, file.GetInteger(key));
    named = key;
    break;
  }
  if (id >= 0 && id < vocab_size) return static_cast<TokenId>(id);
  return MakeError(
      ErrorCode::kDataLoss, "tokenizer",
      fmt::format("{}: {} is not a token; the vocabulary has {}", named, id, vocab_size));
}

// The blocks of CJK ideographs that BERT separates; kana and hangul are letters like others.
bool IsIdeograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

// Returns valid UTF-8 without what BERT drops: control and other characters that are no text.
std::string Clean(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const Utf8Step step = NextUtf8(text.substr(position));
    position += step.length;
    if (step.status != Utf8Status::kValid) continue;  // BERT reads U+FFFD there, and drops it
    const char32_t c = step.code_point;
    const bool is_blank = c == '\t' || c == '\n' || c == '\r';
    if (c == 0xFFFD || (!is_blank && unicode::IsOther(c))) continue;
    AppendUtf8(c, out);
  }
  return out;
}

std::string StripAccents(std::string_view text) {
  const std::string decomposed = unicode::Normalize(text, unicode::NormalForm::kNfd);
  return unicode::StripNonspacingMarks(decomposed);
}

ByteTrie MakeTrie(const Vocabulary& vocabulary, bool of_heads) {
  std::vector<ByteTrie::Entry> entries;
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.type(id) != TokenType::kNormal) continue;
    std::string_view text = vocabulary.texts[static_cast<size_t>(id)];
    if (text.starts_with(kSpaceMark) != of_heads) continue;
    if (of_heads) text.remove_prefix(kSpaceMark.size());
    entries.emplace_back(text, id);
  }
  return ByteTrie(entries);
}

// Returns the longest piece that `text` begins with, and its length.
std::optional<std::pair<TokenId, size_t>> LongestPiece(const ByteTrie& trie,
                                                       std::string_view text) {
  std::optional<std::pair<TokenId, size_t>> found;
  uint32_t node = ByteTrie::kNone;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    node = i == 0 ? trie.First(byte) : trie.Next(node, byte);
    if (node == ByteTrie::kNone) break;
    // A piece of broken UTF-8 in a hostile file must not cut a character in two.
    const bool is_whole =
        i + 1 == text.size() || (static_cast<uint8_t>(text[i + 1]) & 0xC0) != 0x80;
    if (const auto value = trie.value(node); value && is_whole) found = {*value, i + 1};
  }
  return found;
}

size_t NumCharacters(std::string_view valid) {
  return static_cast<size_t>(std::ranges::count_if(
      valid, [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> WordPieceTokenizer::Load(const modelfile::ModelFile& file) {
  KVGATE_TRY(Vocabulary vocabulary, vocabulary::ReadVocabulary(file, {.bos = std::nullopt,
                                                                      .eos = std::nullopt,
                                                                      .unknown = kUnknown,
                                                                      .add_bos = true,
                                                                      .add_eos = true,
                                                                      .add_space_prefix = true}));
  KVGATE_TRY(vocabulary.bos,
             ReadSpecial(file, {"cls_token_id", "bos_token_id"}, kClassify, vocabulary.size()));
  // The first spelling is the one that files have.
  KVGATE_TRY(vocabulary.eos,
             ReadSpecial(file, {"seperator_token_id", "separator_token_id", "eos_token_id"},
                         kSeparate, vocabulary.size()));
  // Users of the format add both to every text, whatever the flags say.
  vocabulary.add_bos = vocabulary.add_eos = true;
  std::vector<std::string> token_bytes;
  token_bytes.reserve(vocabulary.texts.size());
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const std::string& text = vocabulary.texts[static_cast<size_t>(id)];
    const bool is_head = vocabulary.type(id) == TokenType::kNormal && text.starts_with(kSpaceMark);
    token_bytes.push_back(is_head ? ' ' + text.substr(kSpaceMark.size()) : text);
  }
  return std::unique_ptr<Tokenizer>(
      new WordPieceTokenizer(std::move(vocabulary), std::move(token_bytes)));
}

WordPieceTokenizer::WordPieceTokenizer(Vocabulary from, std::vector<std::string> bytes)
    : VocabularyTokenizer(std::move(from), std::move(bytes)),
      heads_(MakeTrie(vocabulary(), /*of_heads=*/true)),
      tails_(MakeTrie(vocabulary(), /*of_heads=*/false)) {}

std::vector<std::string> WordPieceTokenizer::Words(std::string_view text) {
  const std::string normal = unicode::LowerCase(StripAccents(Clean(text)));
  const CharClassTable& classes = CharClassTable::Get();
  std::vector<std::string> words;
  bool in_word = false;
  for (size_t position = 0; position < normal.size();) {
    const Utf8Step step = NextUtf8(std::string_view(normal).substr(position));
    const std::string_view character = std::string_view(normal).substr(position, step.length);
    position += step.length;
    const char32_t c = step.code_point;
    if ((classes[c] & CharClass::kSpace) != 0) {
      in_word = false;
      continue;
    }
    const bool is_alone = unicode::IsPunctuation(c) || IsIdeograph(c);
    if (is_alone || !in_word) words.emplace_back();
    words.back().append(character);
    in_word = !is_alone;
  }
  return words;
}

void WordPieceTokenizer::EncodeFragment(const Fragment& fragment, TokenRun& run) const {
  for (const std::string& word : Words(fragment.text)) EncodeWord(word, run);
  run.MarkEnd(fragment.offset + fragment.text.size());
}

// A word with a part that no piece covers is unknown as a whole.
void WordPieceTokenizer::EncodeWord(std::string_view word, TokenRun& run) const {
  std::vector<TokenId> pieces;
  bool is_known = NumCharacters(word) <= kWordCharactersMax;
  for (std::string_view rest = word; is_known && !rest.empty();) {
    const auto piece = LongestPiece(pieces.empty() ? heads_ : tails_, rest);
    is_known = piece.has_value();
    if (!is_known) break;
    pieces.push_back(piece->first);
    rest.remove_prefix(piece->second);
  }
  if (is_known) {
    for (const TokenId piece : pieces) run.Append(piece);
  } else if (vocabulary().unknown) {
    run.Append(*vocabulary().unknown);
  }
}

}  // namespace kvgate::tokenizer
