#include "engine/text/tokenizer/unigram_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/engine/text/tokenizer/charsmap_fixture.h"
#include "tests/engine/text/tokenizer/fixtures.h"

namespace kvgate::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The special tokens are in T5's order, and the scores of the pieces fall in the given order.
Fixture UnigramFixture(const std::vector<std::string>& pieces) {
  Fixture fixture;
  fixture.model = "t5";
  fixture.Add("<pad>", kControl);
  fixture.Add("</s>", kControl);
  fixture.Add("<unk>", kUnknown);
  float score = 0;
  for (const std::string& piece : pieces) fixture.Add(piece, kNormal, score -= 1);
  fixture.extra = {{"tokenizer.ggml.add_space_prefix", true},
                   {"tokenizer.ggml.remove_extra_whitespaces", true}};
  return fixture;
}

const std::vector<std::string>& Pieces() {
  static const std::vector<std::string> pieces = {"▁the", "▁", "t", "h", "e", "fi", "x", "y", "▁a"};
  return pieces;
}

void AddCharsmap(Fixture& fixture, const std::map<std::string, std::string>& rules) {
  const std::string bytes = CharsmapMaker::Make(rules);
  auto array = std::make_shared<modelfile::GgufArray>();
  array->values = std::vector<int8_t>(bytes.begin(), bytes.end());
  fixture.extra.emplace_back("tokenizer.ggml.precompiled_charsmap",
                             std::shared_ptr<const modelfile::GgufArray>(array));
}

TEST(UnigramTokenizerTest, BlanksAreFoldedAndWrittenBeforeWords) {
  const auto tokenizer = UnigramFixture(Pieces()).MustLoad();
  EXPECT_THAT(Texts(*tokenizer, "  the   the "), ElementsAre(" the", " the"));
  EXPECT_THAT(Texts(*tokenizer, "  "), ElementsAre());
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("the the", kPlain)), "the the");
}

TEST(UnigramTokenizerTest, WithoutFoldingEveryBlankStays) {
  Fixture fixture = UnigramFixture(Pieces());
  fixture.extra.clear();
  EXPECT_THAT(Texts(*fixture.MustLoad(), "the  the"), ElementsAre("t", "h", "e", " ", " the"));
  fixture.extra = {{"tokenizer.ggml.add_space_prefix", true},
                   {"tokenizer.ggml.treat_whitespace_as_suffix", true}};
  EXPECT_THAT(Texts(*fixture.MustLoad(), "x"), ElementsAre("x", " "));
  fixture.extra = {{"tokenizer.ggml.escape_whitespaces", false}};
  EXPECT_THAT(Texts(*fixture.MustLoad(), "x y"), ElementsAre("x", "<unk>", "y"));
}

TEST(UnigramTokenizerTest, TheCharsmapIsAppliedFirst) {
  Fixture fixture = UnigramFixture(Pieces());
  AddCharsmap(fixture, {{"ﬁ", "fi"}, {"\t", " "}});
  EXPECT_THAT(Texts(*fixture.MustLoad(), "ﬁ\tthe"), ElementsAre(" ", "fi", " the"));
}

TEST(UnigramTokenizerTest, EosFollowsAndEachTextBehindASpecialTokenHasItsPrefix) {
  const auto tokenizer = UnigramFixture(Pieces()).MustLoad();
  EXPECT_THAT(Texts(*tokenizer, "the</s>the", {.add_special = true, .parse_special = true}),
              ElementsAre(" the", "</s>", " the", "</s>"));
  EXPECT_EQ(tokenizer->bos(), std::nullopt);
}

TEST(UnigramTokenizerTest, BrokenFilesAreRefusedByTheField) {
  Fixture fixture = UnigramFixture(Pieces());
  fixture.scores.clear();
  EXPECT_THAT(fixture.Load().error().detail, HasSubstr("tokenizer.ggml.scores"));
  fixture = UnigramFixture(Pieces());
  fixture.extra.emplace_back("tokenizer.ggml.precompiled_charsmap", std::string("x"));
  EXPECT_THAT(fixture.Load().error().detail, HasSubstr("precompiled_charsmap"));
  fixture = UnigramFixture({std::string(1000, 'a')});
  EXPECT_THAT(fixture.Load().error().detail, HasSubstr("token 3 has 1000 bytes"));
}

TEST(UnigramTokenizerTimingTest, AMegabyteWithoutASpaceIsEncodedInLinearTime) {
  const auto tokenizer = UnigramFixture(Pieces()).MustLoad();
  for (const std::string unit : {"t", "the", "日", " ", "👍", "\xFF", "\u0301", "7"}) {
    ExpectGrowsLinearly(unit, 1 << 20,
                        [&](const std::string& text) { tokenizer->Encode(text, kPlain); });
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace kvgate::tokenizer
