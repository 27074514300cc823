#include "engine/text/tokenizer/spm_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/engine/text/tokenizer/fixtures.h"

namespace kvgate::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr TokenId kBytes = 3;         // <0x00>
constexpr TokenId kPieces = 3 + 256;  // the first piece

TEST(SpmTokenizerTest, ThePairOfTheHighestScoreMergesFirst) {
  const auto tokenizer = SpmFixture(SpmPieces()).MustLoad();
  // "▁t" outranks "he", which outranks "▁the"; "ing" is made only of "in" + "g", as there is no
  // "ng".
  EXPECT_THAT(Texts(*tokenizer, "the thing"), ElementsAre(" the", " t", "h", "ing"));
  EXPECT_THAT(Texts(*tokenizer, "     the"), ElementsAre("    ", " ", " the"));
}

TEST(SpmTokenizerTest, EqualScoresMergeTheLeftmostPairFirst) {
  Fixture fixture = SpmFixture({"a"});
  fixture.Add("aa", kNormal, -5);
  const auto tokenizer = fixture.MustLoad();
  EXPECT_THAT(Texts(*tokenizer, std::string(5, 'a')),
              ElementsAre("\xE2", "\x96", "\x81", "aa", "aa", "a"));
}

TEST(SpmTokenizerTest, CharactersOutsideTheVocabularyFallBackToTheirBytes) {
  const auto tokenizer = SpmFixture(SpmPieces()).MustLoad();
  EXPECT_THAT(tokenizer->Encode("é€", kPlain),
              ElementsAre(kPieces + 10, kPieces + 22, kBytes + 0xE2, kBytes + 0x82, kBytes + 0xAC));
  EXPECT_THAT(tokenizer->Encode("\xFF", kPlain), ElementsAre(kPieces + 10, kBytes + 0xFF));
}

TEST(SpmTokenizerTest, WithoutByteTokensACharacterOutsideIsUnknown) {
  Fixture fixture;
  fixture.model = "llama";
  fixture.Add("<unk>", kUnknown);
  fixture.Add("▁", kNormal, -1);
  fixture.Add("a", kNormal, -2);
  const auto tokenizer = fixture.MustLoad();
  EXPECT_THAT(tokenizer->Encode("a€a", kPlain), ElementsAre(1, 2, 0, 2));
}

TEST(SpmTokenizerTest, ACharacterThatIsNoPieceItselfStillMergesIntoOne) {
  const auto tokenizer = SpmFixture({"▁", "qu"}).MustLoad();
  EXPECT_THAT(Texts(*tokenizer, "quq"), ElementsAre(" ", "qu", "q"));
}

TEST(SpmTokenizerTest, PlainCharactersNeverMergeIntoControlOrByteTokens) {
  const auto tokenizer =
      SpmFixture({"▁", "</", "s>", "<", "/", "s", ">", "<0x0A", "<0", "x0A", "x0", "A", "x", "0"})
          .MustLoad();
  EXPECT_THAT(Texts(*tokenizer, "</s>"), ElementsAre(" ", "</", "s>"));
  const std::vector<TokenId> ids = tokenizer->Encode("<0x0A>", kPlain);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), kBytes + 0x0A), 0);
  EXPECT_THAT(tokenizer->Encode("</s>", {.add_special = false, .parse_special = true}),
              ElementsAre(2));
}

TEST(SpmTokenizerTest, TextBehindASpecialTokenGetsTheSpacePrefixAgain) {
  const auto tokenizer = SpmFixture(SpmPieces()).MustLoad();
  const EncodeOptions parse = {.add_special = false, .parse_special = true};
  EXPECT_THAT(Texts(*tokenizer, "<s>the</s>the", parse),
              ElementsAre("<s>", " the", "</s>", " the"));
  EXPECT_THAT(Texts(*tokenizer, "", parse), ElementsAre());
}

TEST(SpmTokenizerTest, TheFlagsOfTheFileOverrideTheDefaults) {
  Fixture fixture = SpmFixture(SpmPieces());
  EXPECT_THAT(Texts(*fixture.MustLoad(), "the", {}), ElementsAre("<s>", " the"));
  fixture.extra = {{"tokenizer.ggml.add_bos_token", false},
                   {"tokenizer.ggml.add_eos_token", true},
                   {"tokenizer.ggml.add_space_prefix", false}};
  const auto tokenizer = fixture.MustLoad();
  EXPECT_THAT(Texts(*tokenizer, "the", {}), ElementsAre("t", "he", "</s>"));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(" the", kPlain)), " the");
}

TEST(SpmTokenizerTest, DecodingAnEncodedTextGivesItsBytesBack) {
  const auto tokenizer = SpmFixture(SpmPieces()).MustLoad();
  std::mt19937_64 random(5);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = RandomText(random, random() % 30, true);
    ASSERT_EQ(tokenizer->Decode(tokenizer->Encode(text, kPlain)), text);
  }
}

TEST(SpmTokenizerTest, MergingWordByWordEqualsMergingTheWholeText) {
  const auto by_words = SpmFixture(SpmPieces()).MustLoad();
  // A piece that continues after a space forbids splitting the text into words; this one is of a
  // character that no text has.
  Fixture whole = SpmFixture(SpmPieces());
  whole.Add("\u0378▁\u0378", kNormal, -1000);
  const auto at_once = whole.MustLoad();
  std::mt19937_64 random(6);
  for (int round = 0; round < 1000; ++round) {
    const std::string text = RandomText(random, random() % 60, false);
    if (text.find("\u0378") != std::string::npos) continue;
    ASSERT_EQ(by_words->Encode(text, kPlain), at_once->Encode(text, kPlain)) << text;
  }
}

TEST(SpmTokenizerTest, AMegabyteWithoutASpaceIsEncodedWhole) {
  const auto tokenizer = SpmFixture(SpmPieces()).MustLoad();
  for (const std::string unit : {"the", "日本", "xyz", " ", "\xFF"}) {
    std::string text;
    while (text.size() < (1 << 20)) text += unit;
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text, kPlain)), text);
  }
}

TEST(SpmTokenizerTest, AFileWithoutScoresOrWithMalformedByteTokensIsRefusedByName) {
  Fixture no_scores = SpmFixture(SpmPieces());
  no_scores.scores.clear();
  auto result = no_scores.Load();
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().ToString(), HasSubstr("tokenizer.ggml.scores"));
  Fixture bad_byte = SpmFixture(SpmPieces());
  bad_byte.texts[10] = "<0xZZ>";
  result = bad_byte.Load();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kDataLoss);
  EXPECT_THAT(result.error().ToString(), HasSubstr("token 10"));
  Fixture long_piece = SpmFixture(SpmPieces());
  long_piece.texts.back() = std::string(513, 'x');
  result = long_piece.Load();
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().ToString(), HasSubstr("513"));
}

}  // namespace
}  // namespace kvgate::tokenizer
