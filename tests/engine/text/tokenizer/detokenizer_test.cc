#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "tests/engine/text/tokenizer/fixtures.h"

namespace kvgate::tokenizer {
namespace {

std::string Repaired(std::string_view bytes) {
  std::string text;
  if (AppendValidUtf8(bytes, text) < bytes.size()) text += kReplacementCharacter;
  return text;
}

TEST(DetokenizerTest, StreamingEqualsDecodeForAnyRunOfTokensAndNeverSplitsACharacter) {
  std::mt19937_64 random(13);
  for (const auto& tokenizer :
       {SpmFixture(SpmPieces()).MustLoad(), BpeFixture(BpeMerges()).MustLoad()}) {
    for (int round = 0; round < 2000; ++round) {
      std::vector<TokenId> tokens;
      if (round % 2 == 0) {
        tokens = tokenizer->Encode(RandomText(random, 20, true), {});
      } else {
        for (int i = 0; i < 20; ++i) {
          tokens.push_back(static_cast<TokenId>(random() % tokenizer->vocab_size()));
        }
      }
      Detokenizer detokenizer(*tokenizer, Detokenizer::Start::kText);
      std::string streamed;
      for (const TokenId token : tokens) {
        const std::string text = detokenizer.Push(token);
        ASSERT_EQ(ValidUtf8Bytes(text), text.size());
        streamed += text;
      }
      streamed += detokenizer.Finish();
      ASSERT_EQ(streamed, Repaired(tokenizer->Decode(tokens)));
      EXPECT_EQ(detokenizer.Finish(), "");
    }
  }
}

TEST(DetokenizerTest, AContinuationKeepsTheSpaceThatATextDrops) {
  const auto tokenizer = SpmFixture(SpmPieces()).MustLoad();
  const std::vector<TokenId> tokens =
      tokenizer->Encode("the", {.add_special = false, .parse_special = false});
  ASSERT_EQ(tokens.size(), 1u);
  EXPECT_EQ(Detokenizer(*tokenizer).Push(tokens[0]), " the");
  EXPECT_EQ(Detokenizer(*tokenizer, Detokenizer::Start::kText).Push(tokens[0]), "the");
}

TEST(DetokenizerTest, ACharacterAppearsWithItsLastByte) {
  const auto tokenizer = BpeFixture({}).MustLoad();
  Detokenizer detokenizer(*tokenizer);
  EXPECT_EQ(detokenizer.Push(0xF0), "");
  EXPECT_EQ(detokenizer.Push(0x9F), "");
  EXPECT_EQ(detokenizer.Push(0x91), "");
  EXPECT_EQ(detokenizer.Push(0x8D), "👍");
  EXPECT_EQ(detokenizer.Push(0xF0), "");
  EXPECT_EQ(detokenizer.Push('a'), "\uFFFDa");
  EXPECT_EQ(detokenizer.Push(0xE6), "");
  EXPECT_EQ(detokenizer.Finish(), "\uFFFD");
}

}  // namespace
}  // namespace kvgate::tokenizer
