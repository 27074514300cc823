#include "engine/text/tokenizer/unigram_model.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "base/utf8.h"
#include "tests/engine/text/tokenizer/fixtures.h"

namespace kvgate::tokenizer {

using vocabulary::Vocabulary;

namespace {

Vocabulary MakeVocabulary(const std::vector<std::pair<std::string, double>>& pieces) {
  Vocabulary vocabulary;
  vocabulary.unknown = 0;
  vocabulary.texts = {"<unk>"};
  vocabulary.types = {vocabulary::TokenType::kUnknown};
  vocabulary.scores = {0};
  for (const auto& [text, score] : pieces) {
    vocabulary.texts.push_back(text);
    vocabulary.types.push_back(vocabulary::TokenType::kNormal);
    vocabulary.scores.push_back(score);
  }
  return vocabulary;
}

std::vector<TokenId> Encode(const Vocabulary& vocabulary, std::string_view text) {
  TokenRun run({});
  UnigramModel(vocabulary).Encode(text, run);
  return run.Finish().tokens;
}

// Returns the best sum of scores over all ways to write `text`, by trying all of them.
double BestScore(const Vocabulary& vocabulary, std::string_view text, double unknown_score) {
  if (text.empty()) return 0;
  double best = -std::numeric_limits<double>::infinity();
  for (size_t id = 1; id < vocabulary.texts.size(); ++id) {
    const std::string& piece = vocabulary.texts[id];
    if (!text.starts_with(piece)) continue;
    best = std::max(best, vocabulary.scores[id] +
                              BestScore(vocabulary, text.substr(piece.size()), unknown_score));
  }
  const size_t length = NextUtf8(text).length;
  if (std::find(vocabulary.texts.begin(), vocabulary.texts.end(), text.substr(0, length)) ==
      vocabulary.texts.end()) {
    best =
        std::max(best, unknown_score + BestScore(vocabulary, text.substr(length), unknown_score));
  }
  return best;
}

TEST(UnigramModelTest, NoOtherWayToWriteATextScoresHigher) {
  std::mt19937_64 random(3);
  const std::vector<std::string> letters = {"a", "b", "é", "c"};
  for (int round = 0; round < 200; ++round) {
    std::map<std::string, double> pieces;
    double score_min = 0;
    for (int i = 0; i < 12; ++i) {
      std::string text;
      for (size_t n = 1 + random() % 3; n > 0; --n) text += letters[random() % 3];
      const double score = -static_cast<double>(random() % 64) / 4;
      if (pieces.emplace(text, score).second) score_min = std::min(score_min, score);
    }
    const Vocabulary vocabulary = MakeVocabulary({pieces.begin(), pieces.end()});
    std::string text;
    for (size_t n = random() % 9; n > 0; --n) text += letters[random() % 4];
    // Every token's score counts. A run of characters without a piece is one token, so these are
    // counted from the text that the other tokens leave.
    double score = 0;
    size_t covered = 0;
    for (const TokenId id : Encode(vocabulary, text)) {
      if (id == 0) continue;
      score += vocabulary.scores[static_cast<size_t>(id)];
      covered += vocabulary.texts[static_cast<size_t>(id)].size();
    }
    const double unknown = score_min - 10.0;
    // é has two bytes, but only whole characters can be unknown.
    const double best = BestScore(vocabulary, text, unknown);
    if (covered == text.size()) {
      EXPECT_DOUBLE_EQ(score, best) << text;
    } else {
      EXPECT_LT(best, score) << text;
    }
  }
}

TEST(UnigramModelTest, ARowOfCharactersWithoutAPieceIsOneUnknown) {
  const Vocabulary vocabulary = MakeVocabulary({{"a", -1}, {"b", -2}});
  EXPECT_EQ(Encode(vocabulary, "日本a語b"), (std::vector<TokenId>{0, 1, 0, 2}));
  EXPECT_EQ(Encode(vocabulary, ""), std::vector<TokenId>{});
}

TEST(UnigramModelTest, AllByteTokensStandForWhatHasNoPiece) {
  Vocabulary vocabulary = MakeVocabulary({{"a", -1}});
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof(text), "<0x%02X>", byte);
    vocabulary.texts.push_back(text);
    vocabulary.types.push_back(vocabulary::TokenType::kByte);
    vocabulary.scores.push_back(0);
  }
  EXPECT_EQ(Encode(vocabulary, "aé"), (std::vector<TokenId>{1, 2 + 0xC3, 2 + 0xA9}));
}

TEST(UnigramModelTest, OfEqualScoresTheEarlierSplitWins) {
  const Vocabulary vocabulary =
      MakeVocabulary({{"a", -1}, {"ab", -2}, {"b", -1}, {"bc", -2}, {"c", -1}});
  // a|bc, ab|c and a|b|c all sum up to -3: the first path to reach each position stays.
  EXPECT_EQ(Encode(vocabulary, "abc"), (std::vector<TokenId>{1, 4}));
}

}  // namespace
}  // namespace kvgate::tokenizer
