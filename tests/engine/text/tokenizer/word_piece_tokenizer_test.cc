#include "engine/text/tokenizer/word_piece_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/text/tokenizer/fixtures.h"

namespace kvgate::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr EncodeOptions kWhole = {.add_special = true, .parse_special = true};

Fixture WordPieceFixture(const std::vector<std::string>& pieces) {
  Fixture fixture;
  fixture.model = "bert";
  const TokenId pad = fixture.Add("[PAD]", kControl);
  const TokenId unknown = fixture.Add("[UNK]", kUnknown);
  const TokenId classify = fixture.Add("[CLS]", kControl);
  const TokenId separate = fixture.Add("[SEP]", kControl);
  for (const std::string& piece : pieces) fixture.Add(piece, kNormal);
  fixture.extra = {{"tokenizer.ggml.padding_token_id", static_cast<uint64_t>(pad)},
                   {"tokenizer.ggml.unknown_token_id", static_cast<uint64_t>(unknown)},
                   {"tokenizer.ggml.cls_token_id", static_cast<uint64_t>(classify)},
                   {"tokenizer.ggml.seperator_token_id", static_cast<uint64_t>(separate)}};
  return fixture;
}

const std::vector<std::string>& Pieces() {
  static const std::vector<std::string> pieces = {"▁un",  "▁una", "aff", "able", "▁want", "ed",
                                                  "▁,",   "▁!",   "▁日", "▁本",  "▁cafe", "▁a",
                                                  "▁the", "the",  "▁[",  "▁cls", "▁]"};
  return pieces;
}

TEST(WordPieceTokenizerTest, AWordIsCutIntoTheLongestPiecesFromTheLeft) {
  const auto tokenizer = WordPieceFixture(Pieces()).MustLoad();
  // "una" is longer than "un", and "ffable" then has no beginning: the whole word is unknown.
  EXPECT_THAT(Texts(*tokenizer, "unaffable"), ElementsAre("[UNK]"));
  EXPECT_THAT(Texts(*tokenizer, "wanted unable"), ElementsAre(" want", "ed", "[UNK]"));
  EXPECT_THAT(Texts(*tokenizer, "unaaff"), ElementsAre(" una", "aff"));
  EXPECT_THAT(Texts(*tokenizer, "wantaffable"), ElementsAre(" want", "aff", "able"));
}

TEST(WordPieceTokenizerTest, PiecesThatContinueAWordAreNotThoseThatBeginOne) {
  const auto tokenizer = WordPieceFixture(Pieces()).MustLoad();
  EXPECT_THAT(Texts(*tokenizer, "the"), ElementsAre(" the"));
  EXPECT_THAT(Texts(*tokenizer, "wantthe"), ElementsAre(" want", "the"));
  EXPECT_THAT(Texts(*tokenizer, "ed"), ElementsAre("[UNK]"));     // it only continues
  EXPECT_THAT(Texts(*tokenizer, "wanta"), ElementsAre("[UNK]"));  // it only begins
  EXPECT_THAT(Texts(*tokenizer, "want▁the"), ElementsAre("[UNK]"));
}

TEST(WordPieceTokenizerTest, TextIsFreedOfCapitalsAccentsAndControls) {
  const auto tokenizer = WordPieceFixture(Pieces()).MustLoad();
  EXPECT_THAT(Texts(*tokenizer,
                    "Café CAFE\u0301 ca\u200Bfe c\u0001a\uFFFDfe ca\xFF"
                    "fe"),
              ElementsAre(" cafe", " cafe", " cafe", " cafe", " cafe"));
  EXPECT_THAT(Texts(*tokenizer, "the\tthe\u00A0the\u3000the\r\nthe\u2028the"),
              ElementsAre(" the", " the", " the", " the", " the", " the"));
  EXPECT_THAT(Texts(*tokenizer, " \n "), ElementsAre());
}

TEST(WordPieceTokenizerTest, PunctuationAndIdeographsStandAlone) {
  const auto tokenizer = WordPieceFixture(Pieces()).MustLoad();
  EXPECT_THAT(Texts(*tokenizer, "the,the!!日本the"),
              ElementsAre(" the", " ,", " the", " !", " !", " 日", " 本", " the"));
  EXPECT_THAT(WordPieceTokenizer::Words("don't $5-かな、한"),
              ElementsAre("don", "'", "t", "$", "5", "-", "かな", "、", "\u1112\u1161\u11AB"));
  // A mark that is no accent stays: the vowel sign of the Devanagari syllable "ki".
  EXPECT_THAT(WordPieceTokenizer::Words("कि"), ElementsAre("कि"));
}

TEST(WordPieceTokenizerTest, EveryTextStandsBetweenClassifyAndSeparate) {
  const auto tokenizer = WordPieceFixture(Pieces()).MustLoad();
  EXPECT_THAT(Texts(*tokenizer, "the", kWhole), ElementsAre("[CLS]", " the", "[SEP]"));
  EXPECT_THAT(Texts(*tokenizer, "", kWhole), ElementsAre("[CLS]", "[SEP]"));
  EXPECT_THAT(Texts(*tokenizer, "the[SEP]the", kWhole),
              ElementsAre("[CLS]", " the", "[SEP]", " the", "[SEP]"));
  // As plain characters it is no control token.
  EXPECT_THAT(Texts(*tokenizer, "[CLS]"), ElementsAre(" [", " cls", " ]"));
}

TEST(WordPieceTokenizerTest, AWordOfMoreThanAHundredCharactersIsUnknown) {
  const auto tokenizer = WordPieceFixture({"▁é", "▁a", "a", "▁日"}).MustLoad();
  const auto count = [&](size_t length) {
    return tokenizer->Encode(std::string(length, 'a'), kPlain).size();
  };
  EXPECT_EQ(count(100), 100u);
  EXPECT_EQ(count(101), 1u);
  EXPECT_THAT(Texts(*tokenizer, std::string(101, 'a')), ElementsAre("[UNK]"));
}

TEST(WordPieceTokenizerTest, DecodingJoinsThePieces) {
  const auto tokenizer = WordPieceFixture(Pieces()).MustLoad();
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("The wanted cafe!", kWhole)), "the wanted cafe !");
}

TEST(WordPieceTokenizerTest, FilesWithoutIdsHaveThoseOfBert) {
  Fixture fixture;
  fixture.model = "bert";
  for (int i = 0; i < 100; ++i) fixture.Add("[unused" + std::to_string(i) + "]", kNormal);
  fixture.Add("[UNK]", kUnknown);
  fixture.Add("[CLS]", kControl);
  fixture.Add("[SEP]", kControl);
  fixture.Add("▁a", kNormal);
  const auto tokenizer = fixture.MustLoad();
  EXPECT_THAT(tokenizer->Encode("a b", kWhole), ElementsAre(101, 103, 100, 102));
}

TEST(WordPieceTokenizerTest, BrokenFilesAreRefusedByTheField) {
  Fixture fixture = WordPieceFixture(Pieces());
  fixture.extra = {{"tokenizer.ggml.cls_token_id", uint64_t{900}}};
  EXPECT_THAT(fixture.Load().error().detail, HasSubstr("tokenizer.ggml.cls_token_id"));
  fixture.extra = {{"tokenizer.ggml.cls_token_id", uint64_t{2}}};
  EXPECT_THAT(fixture.Load().error().detail, HasSubstr("seperator_token_id"));
}

TEST(WordPieceTokenizerTest, AnyBytesGiveTokensInLinearTime) {
  const auto tokenizer = WordPieceFixture(Pieces()).MustLoad();
  std::mt19937_64 random(7);
  for (int i = 0; i < 300; ++i) {
    const std::string text = RandomText(random, 40, true);
    for (const TokenId id : tokenizer->Encode(text, kWhole)) {
      ASSERT_TRUE(id >= 0 && id < tokenizer->vocab_size());
    }
  }
  for (const char* unit : {"a", "the ", "日", "e\u0301", ",", "\xFF"}) {
    ExpectGrowsLinearly(unit, size_t{1} << 19,
                        [&](const std::string& text) { (void)tokenizer->Encode(text, kPlain); });
  }
}

}  // namespace
}  // namespace kvgate::tokenizer
