#include "engine/text/tokenizer/bpe_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/engine/text/tokenizer/fixtures.h"

namespace kvgate::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BpeTokenizerTest, MergesByRankWithinWordsOnly) {
  const auto tokenizer = BpeFixture(BpeMerges()).MustLoad();
  EXPECT_THAT(Texts(*tokenizer, "then the thing"),
              ElementsAre("t", "he", "n", " the", " t", "h", "ing"));
  // "g" and " t" are in different words, so they do not merge.
  EXPECT_THAT(Texts(*tokenizer, "é     in"), ElementsAre("\xC3\xA9", "    ", " ", "in"));
}

TEST(BpeTokenizerTest, AMergeThatIsNoTokenIsTakenApartIntoBytes) {
  Fixture fixture = BpeFixture({});
  fixture.merges = {"x y", "xy z"};
  fixture.Add("xyz", kNormal);
  const auto tokenizer = fixture.MustLoad();
  EXPECT_THAT(Texts(*tokenizer, "xyzxyxyz"), ElementsAre("xyz", "x", "y", "xyz"));
}

TEST(BpeTokenizerTest, Llama3TakesAWholeWordFromTheVocabularyWhateverTheMerges) {
  for (const auto& [pre, expected] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"gpt-2", {"h", "i"}}, {"llama-bpe", {"hi"}}}) {
    Fixture fixture = BpeFixture({}, pre);
    fixture.Add("hi", kNormal);  // no merge leads to it
    EXPECT_EQ(Texts(*fixture.MustLoad(), "hi"), expected) << pre;
  }
}

TEST(BpeTokenizerTest, ControlTokensAreFoundOnlyOnDemandAndUserDefinedOnesAlways) {
  Fixture fixture = BpeFixture(BpeMerges());
  fixture.Add("<tool>", kUser);
  const auto tokenizer = fixture.MustLoad();
  EXPECT_THAT(Texts(*tokenizer, "a<|end|><tool>b"),
              ElementsAre("a", "<", "|", "e", "n", "d", "|", ">", "<tool>", "b"));
  EXPECT_THAT(Texts(*tokenizer, "a<|end|><tool>b", {.add_special = false, .parse_special = true}),
              ElementsAre("a", "<|end|>", "<tool>", "b"));
}

TEST(BpeTokenizerTest, DecodingAnEncodedTextGivesItsBytesBack) {
  std::mt19937_64 random(7);
  for (const char* pre : {"default", "gpt-2", "llama-bpe", "qwen2", "deepseek-coder", "refact"}) {
    const auto tokenizer = BpeFixture(BpeMerges(), pre).MustLoad();
    for (int round = 0; round < 500; ++round) {
      const std::string text = RandomText(random, random() % 30, true);
      ASSERT_EQ(tokenizer->Decode(tokenizer->Encode(text, kPlain)), text) << pre;
    }
  }
}

TEST(BpeTokenizerTest, AMegabyteWithoutASpaceIsEncodedWhole) {
  const auto tokenizer = BpeFixture(BpeMerges()).MustLoad();
  for (const std::string unit : {"the", "日本", "!", " ", "\xFF", "\n"}) {
    std::string text;
    while (text.size() < (1 << 20)) text += unit;
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text, kPlain)), text);
  }
}

TEST(BpeTokenizerTest, AByteWithoutATokenIsTheReplacementCharacterNeverAControlToken) {
  Fixture fixture = BpeFixture(BpeMerges());
  const TokenId end = fixture.Add("<|other|>", kControl);
  fixture.texts[0xFF] = "unused spelling";
  fixture.texts['q'] = "another";
  fixture.extra = {{"tokenizer.ggml.unknown_token_id", uint32_t(end)}};
  EXPECT_EQ(fixture.MustLoad()->Decode(fixture.MustLoad()->Encode("a\xFFqb", kPlain)), "a\uFFFDb");
  const TokenId unknown = fixture.Add("<unk>", kUnknown);
  fixture.extra = {{"tokenizer.ggml.unknown_token_id", uint32_t(unknown)}};
  EXPECT_THAT(fixture.MustLoad()->Encode("q", kPlain), ElementsAre(unknown));
}

TEST(BpeTokenizerTest, AMalformedMergeIsRefusedByItsNumber) {
  for (const char* merge : {"nospace", "tail ", ""}) {
    Fixture fixture = BpeFixture(BpeMerges());
    fixture.merges[3] = merge;
    const auto result = fixture.Load();
    ASSERT_FALSE(result) << merge;
    EXPECT_EQ(result.error().code, ErrorCode::kDataLoss);
    EXPECT_THAT(result.error().ToString(), HasSubstr("tokenizer.ggml.merges: entry 3"));
  }
}

}  // namespace
}  // namespace kvgate::tokenizer
