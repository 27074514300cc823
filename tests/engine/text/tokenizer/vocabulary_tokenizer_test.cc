#include "engine/text/tokenizer/vocabulary_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/engine/text/tokenizer/fixtures.h"

namespace kvgate::tokenizer {
namespace {

using ::testing::ElementsAre;

TEST(VocabularyTokenizerTest, ControlTokensCountOnlyWhollyInsideAMarker) {
  const auto tokenizer = BpeFixture({}).MustLoad();
  const TokenId end = *tokenizer->FindSpecial("<|end|>");
  const std::string text = "<|end|><|end|><|end|>";
  const auto count = [&](std::vector<TextRange> markers) {
    const auto ids = tokenizer->EncodeMarked({.text = text, .markers = markers, .offsets = {}});
    return std::count(ids.tokens.begin(), ids.tokens.end(), end);
  };
  EXPECT_EQ(count({}), 0);
  EXPECT_EQ(count({{.begin = 0, .end = 7}}), 1);
  EXPECT_EQ(count({{.begin = 0, .end = 6}}), 0);
  EXPECT_EQ(count({{.begin = 1, .end = 21}}), 2);
  EXPECT_EQ(count({{.begin = 0, .end = 7}, {.begin = 14, .end = 21}}), 2);
}

TEST(VocabularyTokenizerTest, TheLongestSpecialTokenAtTheLeftmostPlaceWins) {
  Fixture fixture = BpeFixture({});
  const TokenId ab = fixture.Add("<ab", kUser);
  const TokenId abc = fixture.Add("<abc>", kUser);
  const TokenId bc = fixture.Add("bc", kUser);
  const auto tokenizer = fixture.MustLoad();
  EXPECT_THAT(tokenizer->Encode("<abc><abd<bc", {.add_special = false, .parse_special = true}),
              ElementsAre(abc, ab, 'd', '<', bc));
  EXPECT_EQ(tokenizer->FindSpecial("<abc>"), abc);
  EXPECT_EQ(tokenizer->FindSpecial("<abc"), std::nullopt);
  EXPECT_EQ(tokenizer->FindSpecial(""), std::nullopt);
}

TEST(VocabularyTokenizerTest, OffsetsAreFoundAgainAtSpecialTokensAndWords) {
  const auto tokenizer = BpeFixture(BpeMerges()).MustLoad();
  const std::string text = "the<|end|> the thing";
  const TextRange marker = {.begin = 3, .end = 10};
  const std::vector<size_t> offsets = {0, 2, 3, 9, 10, 14, 16, 20};
  const MarkedTokens tokens =
      tokenizer->EncodeMarked({.text = text, .markers = std::span(&marker, 1), .offsets = offsets});
  // The tokens are t he <|end|> ␣the ␣t h ing: offsets 2 and 16 are inside words, 9 inside the
  // special token.
  ASSERT_EQ(tokens.tokens.size(), 7u);
  EXPECT_THAT(tokens.offsets, ElementsAre(0, 0, 2, 2, 3, 4, 4, 7));
}

TEST(VocabularyTokenizerTest, WithoutControlTextMarkersChangeNothing) {
  std::mt19937_64 random(11);
  for (const auto& tokenizer :
       {SpmFixture(SpmPieces()).MustLoad(), BpeFixture(BpeMerges()).MustLoad()}) {
    for (int round = 0; round < 300; ++round) {
      const std::string text = RandomText(random, random() % 30, true);
      const MarkedTokens plain =
          tokenizer->EncodeMarked({.text = text, .markers = {}, .offsets = {}});
      EXPECT_EQ(plain.tokens,
                tokenizer->Encode(text, {.add_special = false, .parse_special = false}));
    }
  }
}

TEST(VocabularyTokenizerTest, IdsOutsideTheVocabularyDecodeToNothing) {
  const auto tokenizer = BpeFixture({}).MustLoad();
  EXPECT_EQ(tokenizer->TokenBytes(-1), "");
  EXPECT_EQ(tokenizer->TokenBytes(tokenizer->vocab_size()), "");
  EXPECT_EQ(tokenizer->Decode(std::vector<TokenId>{'a', -5, 1 << 30, 'b'}), "ab");
}

TEST(VocabularyTokenizerTest, ControlTokensAreShownOnDemandOnly) {
  const auto tokenizer = BpeFixture({}).MustLoad();
  const std::vector<TokenId> ids = {'a', *tokenizer->FindSpecial("<|end|>"), 'b'};
  EXPECT_EQ(tokenizer->Decode(ids), "ab");
  EXPECT_EQ(tokenizer->Decode(ids, true), "a<|end|>b");
}

}  // namespace
}  // namespace kvgate::tokenizer
