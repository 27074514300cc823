// These tests cover the alphabet of characters; bpe_tokenizer_test.cc covers that of bytes.
#include "engine/text/tokenizer/bpe_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/engine/text/tokenizer/fixtures.h"

namespace kvgate::tokenizer {
namespace {

using ::testing::ElementsAre;

// Like Gemma 4, the fixture has SentencePiece's pieces with merges instead of scores.
Fixture GemmaFixture() {
  Fixture fixture = SpmFixture(SpmPieces());
  fixture.model = "gemma4";
  fixture.extra = {{"tokenizer.ggml.bos_token_id", uint32_t{1}},
                   {"tokenizer.ggml.unknown_token_id", uint32_t{0}}};
  fixture.merges = {"▁ t", "h e", "▁t he", "i n", "▁ ▁", "▁▁ ▁▁", "e r", "▁ a", "in g", "日 本"};
  fixture.Add("\n\n", kNormal);
  fixture.scores.clear();
  return fixture;
}

TEST(BpeModelTest, CharactersMergeByRankAndSpacesAreMarks) {
  const auto tokenizer = GemmaFixture().MustLoad();
  EXPECT_THAT(Texts(*tokenizer, "then the  日本"),
              ElementsAre("t", "he", "n", " the", "  ", "日本"));
}

TEST(BpeModelTest, WhatHasNoTokenFallsBackToItsBytes) {
  const auto tokenizer = GemmaFixture().MustLoad();
  EXPECT_THAT(Texts(*tokenizer, "tΩ\xFF"), ElementsAre("t", "\xCE", "\xA9", "\xFF"));
}

TEST(BpeModelTest, ARunOfLineEndsThatIsATokenIsThatToken) {
  const auto tokenizer = GemmaFixture().MustLoad();
  EXPECT_THAT(Texts(*tokenizer, "t\n\nt\n"), ElementsAre("t", "\n\n", "t", "\n"));
}

TEST(BpeModelTest, GemmaAddsBosWhateverTheFileSays) {
  Fixture fixture = GemmaFixture();
  fixture.extra.emplace_back("tokenizer.ggml.add_bos_token", false);
  EXPECT_TRUE(fixture.MustLoad()->adds_bos());
}

TEST(BpeModelTest, AVocabularyWithoutBytesGivesTheUnknownToken) {
  Fixture fixture = GemmaFixture();
  for (int byte = 0; byte < 256; ++byte) fixture.texts[3 + byte] = "x" + std::to_string(byte);
  for (int byte = 0; byte < 256; ++byte) fixture.types[3 + byte] = kUnused;
  EXPECT_THAT(fixture.MustLoad()->Encode("Ω", kPlain), ElementsAre(0));
}

TEST(BpeModelTest, AMergeThatCrossesWordsIsMade) {
  Fixture fixture = GemmaFixture();
  fixture.merges.push_back("t ▁a");
  fixture.Add("t▁a", kNormal);
  fixture.scores.clear();
  EXPECT_THAT(Texts(*fixture.MustLoad(), "t a"), ElementsAre("t a"));
}

TEST(BpeModelTest, DecodingAnEncodedTextGivesItsBytesBack) {
  std::mt19937_64 random(17);
  const auto tokenizer = GemmaFixture().MustLoad();
  for (int round = 0; round < 1000; ++round) {
    const std::string text = RandomText(random, random() % 30, true);
    ASSERT_EQ(tokenizer->Decode(tokenizer->Encode(text, kPlain)), text);
  }
}

TEST(BpeModelTimingTest, AMegabyteWithoutALineEndIsEncodedInLinearTime) {
  const auto tokenizer = GemmaFixture().MustLoad();
  for (const std::string unit : {"a", "the", "日本", " ", "t ", "\xFF", "👍"}) {
    ExpectGrowsLinearly(unit, 1 << 20, [&](const std::string& text) {
      EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text, kPlain)), text);
    });
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace kvgate::tokenizer
