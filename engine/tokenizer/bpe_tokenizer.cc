#include "engine/tokenizer/bpe_tokenizer.h"

#include <fmt/format.h>

#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>

#include "engine/tokenizer/utf8.h"

namespace kvgate::tokenizer {
namespace {

// Byte-level vocabularies spell each byte as one printable character: those that are printable in
// Latin-1 as themselves, the others as U+0100 and on, in order.
class ByteAlphabet {
 public:
  ByteAlphabet() {
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool is_printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
                                (byte >= 0xAE && byte <= 0xFF);
      const char32_t character = is_printable ? static_cast<char32_t>(byte) : next++;
      AppendUtf8(character, spellings_[static_cast<size_t>(byte)]);
      bytes_[character] = static_cast<uint8_t>(byte);
    }
  }
  const std::string& Spell(uint8_t byte) const { return spellings_[byte]; }
  // The bytes a token's text spells. Characters outside the alphabet stand for themselves.
  std::string Read(std::string_view text) const {
    std::string bytes;
    for (size_t position = 0; position < text.size();) {
      const Utf8Step step = NextUtf8(text.substr(position));
      const auto found = bytes_.find(step.code_point);
      if (step.status == Utf8Status::kValid && found != bytes_.end()) {
        bytes.push_back(static_cast<char>(found->second));
      } else {
        bytes.append(text.substr(position, step.length));
      }
      position += step.length;
    }
    return bytes;
  }

 private:
  std::array<std::string, 256> spellings_;
  std::unordered_map<char32_t, uint8_t> bytes_;
};

bool IsMergeable(TokenType type) {
  return type == TokenType::kNormal || type == TokenType::kUnused;
}

std::vector<std::string> ReadTokenBytes(const Vocabulary& vocabulary,
                                        const ByteAlphabet& alphabet) {
  std::vector<std::string> token_bytes;
  token_bytes.reserve(vocabulary.texts.size());
  for (size_t i = 0; i < vocabulary.texts.size(); ++i) {
    const std::string& text = vocabulary.texts[i];
    token_bytes.push_back(IsMergeable(vocabulary.types[i]) ? alphabet.Read(text) : text);
  }
  return token_bytes;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> BpeTokenizer::Load(const model::GgufFile& file) {
  // The pre-tokenizer decides a default, so it comes first.
  std::string pre;
  if (file.Find("tokenizer.ggml.pre") != nullptr) {
    KVGATE_TRY(pre, file.GetString("tokenizer.ggml.pre"));
  }
  KVGATE_TRY(std::unique_ptr<Pretokenizer> pretokenizer, Pretokenizer::Create(pre));
  VocabularyDefaults defaults;
  defaults.add_bos = pretokenizer->adds_bos();
  KVGATE_TRY(Vocabulary vocabulary, ReadVocabulary(file, defaults));
  // Only SentencePiece has the prefix; a flag left by a converter must not eat a space in Decode.
  vocabulary.add_space_prefix = false;
  KVGATE_TRY(Tables tables, MakeTables(vocabulary));
  std::vector<std::string> token_bytes = ReadTokenBytes(vocabulary, ByteAlphabet());
  std::unique_ptr<BpeTokenizer> tokenizer(new BpeTokenizer(
      std::move(vocabulary), std::move(token_bytes), std::move(pretokenizer), std::move(tables)));
  tokenizer->FillWords();
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

BpeTokenizer::BpeTokenizer(Vocabulary vocabulary, std::vector<std::string> token_bytes,
                           std::unique_ptr<Pretokenizer> pretokenizer, Tables tables)
    : VocabularyTokenizer(std::move(vocabulary), std::move(token_bytes)),
      pretokenizer_(std::move(pretokenizer)),
      tables_(std::move(tables)),
      words_(static_cast<size_t>(vocab_size())) {}

Result<BpeTokenizer::Tables> BpeTokenizer::MakeTables(const Vocabulary& vocabulary) {
  std::unordered_map<std::string_view, uint32_t> symbols;
  symbols.reserve(vocabulary.texts.size());
  for (size_t i = 0; i < vocabulary.texts.size(); ++i) {
    if (IsMergeable(vocabulary.types[i])) {
      symbols.emplace(vocabulary.texts[i], static_cast<uint32_t>(i));
    }
  }
  // Added tokens that merges build all the same; control tokens never come out of plain characters.
  for (size_t i = 0; i < vocabulary.texts.size(); ++i) {
    const std::string_view text = vocabulary.texts[i];
    if (vocabulary.types[i] != TokenType::kUserDefined || text.empty()) continue;
    // A single character would be taken for the byte that it spells in the alphabet.
    if (NextUtf8(text).length == text.size()) continue;
    symbols.emplace(text, static_cast<uint32_t>(i));
  }
  std::deque<std::string>
      spare;  // texts of symbols that are no tokens; a deque keeps them in place
  const auto symbol_of = [&](std::string_view text) {
    const auto found = symbols.find(text);
    if (found != symbols.end()) return found->second;
    const uint32_t id = static_cast<uint32_t>(vocabulary.texts.size() + spare.size());
    spare.emplace_back(text);
    symbols.emplace(spare.back(), id);
    return id;
  };
  Tables tables;
  const ByteAlphabet alphabet;
  for (size_t byte = 0; byte < 256; ++byte) {
    tables.byte_symbols[byte] = symbol_of(alphabet.Spell(static_cast<uint8_t>(byte)));
  }
  std::vector<PairMerger::Pair> pairs;
  pairs.reserve(vocabulary.merges.size());
  std::string merged;
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const std::string_view merge = vocabulary.merges[rank];
    // The alphabet spells the space otherwise, so the first space (never the first byte) divides.
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      return MakeError(ErrorCode::kDataLoss, "tokenizer",
                       fmt::format("tokenizer.ggml.merges: entry {} is not two texts with a "
                                   "space between them",
                                   rank));
    }
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    merged.assign(left).append(right);
    pairs.push_back({.left = symbol_of(left),
                     .right = symbol_of(right),
                     .rank = static_cast<uint32_t>(rank),
                     .merged = symbol_of(merged)});
  }
  tables.merger = PairMerger(pairs);
  return tables;
}

void BpeTokenizer::FillWords() {
  std::vector<Symbol> symbols;
  for (TokenId id = 0; id < vocab_size(); ++id) {
    const std::string& word = bytes_of(id);
    if (word.empty() || !IsMergeable(vocabulary().type(id))) continue;
    if (!pretokenizer_->ignores_merges()) {
      // Nearly every token comes out of merging its own bytes; one that does not is not a shortcut.
      MergeWord(word, symbols);
      if (symbols.size() != 1 || symbols[0].id != static_cast<uint32_t>(id)) continue;
    }
    words_.Add(word, id);
  }
}

void BpeTokenizer::MergeWord(std::string_view word, std::vector<Symbol>& symbols) const {
  symbols.clear();
  for (const char c : word) {
    symbols.push_back({.id = tables_.byte_symbols[static_cast<uint8_t>(c)], .length = 1});
  }
  tables_.merger.Merge(symbols);
}

void BpeTokenizer::AppendByte(uint8_t byte, TokenRun& run) const {
  const auto append = [&](uint8_t b) {
    const uint32_t symbol = tables_.byte_symbols[b];
    if (is_token(symbol)) run.Append(static_cast<TokenId>(symbol));
    return is_token(symbol);
  };
  if (append(byte)) return;
  // Vocabularies learnt from valid UTF-8 may lack the bytes that never occur in it. Such a byte is
  // written as U+FFFD, as the reference's decoder of input would have; failing that, as "unknown",
  // but never as a control token.
  if (byte >= 0x80 && is_token(tables_.byte_symbols[0xEF]) &&
      is_token(tables_.byte_symbols[0xBF]) && is_token(tables_.byte_symbols[0xBD])) {
    for (const char c : kReplacementCharacter) append(static_cast<uint8_t>(c));
  } else if (const auto unknown = vocabulary().unknown;
             unknown && vocabulary().type(*unknown) == TokenType::kUnknown) {
    run.Append(*unknown);
  }
}

void BpeTokenizer::EncodeFragment(const Fragment& fragment, TokenRun& run) const {
  std::vector<size_t> word_ends;
  word_ends.reserve(fragment.text.size() / 4 + 1);
  pretokenizer_->Split(fragment.text, word_ends);
  std::vector<Symbol> symbols;
  size_t begin = 0;
  for (const size_t end : word_ends) {
    const std::string_view word = fragment.text.substr(begin, end - begin);
    if (const auto token = words_.Find(word)) {
      run.Append(*token);
    } else {
      MergeWord(word, symbols);
      size_t position = 0;
      for (const Symbol& symbol : symbols) {
        if (is_token(symbol.id)) {
          run.Append(static_cast<TokenId>(symbol.id));
        } else {
          for (size_t i = 0; i < symbol.length; ++i) {
            AppendByte(static_cast<uint8_t>(word[position + i]), run);
          }
        }
        position += symbol.length;
      }
    }
    run.MarkEnd(fragment.offset + end);
    begin = end;
  }
}

}  // namespace kvgate::tokenizer
