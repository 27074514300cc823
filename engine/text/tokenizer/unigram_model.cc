#include "engine/text/tokenizer/unigram_model.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/utf8.h"
#include "engine/text/tokenizer/vocabulary/sentencepiece_text.h"

namespace kvgate::tokenizer {

using vocabulary::TokenType;

namespace {

// Score of a character without a piece, relative to the worst piece.
constexpr double kUnknownPenalty = 10;
constexpr TokenId kUnknown = -1;

// The best way found so far to split the text up to some position.
struct Best {
  double score = -std::numeric_limits<double>::infinity();
  size_t begin = 0;  // of its last piece
  TokenId token = kUnknown;
};

}  // namespace

UnigramModel::UnigramModel(const vocabulary::Vocabulary& vocabulary) : vocabulary_(vocabulary) {
  std::vector<vocabulary::ByteTrie::Entry> entries;
  entries.reserve(vocabulary.texts.size());
  byte_tokens_.fill(-1);
  double score_min = std::numeric_limits<double>::max();
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const size_t index = static_cast<size_t>(id);
    const TokenType type = vocabulary.type(id);
    if (type == TokenType::kNormal) score_min = std::min(score_min, vocabulary.scores[index]);
    if (type == TokenType::kNormal || type == TokenType::kUnused ||
        type == TokenType::kUserDefined) {
      entries.emplace_back(vocabulary.texts[index], id);
    }
    const auto byte = vocabulary::ParseByteToken(vocabulary.texts[index]);
    if (type == TokenType::kByte && byte) byte_tokens_[*byte] = id;
  }
  pieces_ = vocabulary::ByteTrie(entries);
  unknown_score_ = score_min - kUnknownPenalty;
  has_bytes_ = std::all_of(byte_tokens_.begin(), byte_tokens_.end(),
                           [](TokenId token) { return token >= 0; });
}

void UnigramModel::AppendUnknown(std::string_view bytes, TokenRun& run) const {
  if (has_bytes_) {
    for (const char c : bytes) run.Append(byte_tokens_[static_cast<uint8_t>(c)]);
  } else if (vocabulary_.unknown) {
    run.Append(*vocabulary_.unknown);
  }
}

void UnigramModel::Encode(std::string_view text, TokenRun& run) const {
  std::vector<Best> best(text.size() + 1);
  best[0].score = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t character_end = begin + NextUtf8(text.substr(begin)).length;
    bool covers_character = false;
    size_t end = begin + 1;
    for (uint32_t node = pieces_.First(static_cast<uint8_t>(text[begin]));
         node != vocabulary::ByteTrie::kNone;
         node = pieces_.Next(node, static_cast<uint8_t>(text[end++]))) {
      if (const auto token = pieces_.value(node)) {
        covers_character = covers_character || end == character_end;
        const bool is_user_defined = vocabulary_.type(*token) == TokenType::kUserDefined;
        const double score =
            best[begin].score +
            (is_user_defined ? 0.0 : vocabulary_.scores[static_cast<size_t>(*token)]);
        if (score > best[end].score) best[end] = {score, begin, *token};
      }
      if (end == text.size()) break;
    }
    if (!covers_character) {
      const double score = best[begin].score + unknown_score_;
      if (score > best[character_end].score) best[character_end] = {score, begin, kUnknown};
    }
    begin = character_end;
  }
  std::vector<size_t> ends;
  for (size_t end = text.size(); end > 0; end = best[end].begin) ends.push_back(end);
  size_t unknown_begin = 0;  // first of a run of characters without a piece
  for (size_t i = ends.size(); i-- > 0;) {
    const Best& piece = best[ends[i]];
    if (piece.token != kUnknown) {
      run.Append(piece.token);
      continue;
    }
    const bool continues = i + 1 < ends.size() && best[ends[i + 1]].token == kUnknown;
    if (!continues) unknown_begin = piece.begin;
    const bool ends_here = i == 0 || best[ends[i - 1]].token != kUnknown;
    if (ends_here) AppendUnknown(text.substr(unknown_begin, ends[i] - unknown_begin), run);
  }
}

}  // namespace kvgate::tokenizer
