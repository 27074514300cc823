#include "engine/text/tokenizer/vocabulary/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/text/tokenizer/fixtures.h"

namespace kvgate::tokenizer::vocabulary {
namespace {

using ::testing::HasSubstr;

void ExpectRefused(const Fixture& fixture, const char* name) {
  const auto result = fixture.Load();
  ASSERT_FALSE(result) << name;
  EXPECT_THAT(result.error().ToString(), HasSubstr(name));
}

TEST(VocabularyTest, SenselessFieldsAreRefusedByName) {
  Fixture fixture = BpeFixture(BpeMerges());
  fixture.extra = {{"tokenizer.ggml.bos_token_id", uint32_t{100000}}};
  ExpectRefused(fixture, "tokenizer.ggml.bos_token_id");
  fixture.extra = {{"tokenizer.ggml.eos_token_id", std::string("x")}};
  ExpectRefused(fixture, "tokenizer.ggml.eos_token_id");
  fixture.extra.clear();
  fixture.types[4] = 99;
  ExpectRefused(fixture, "tokenizer.ggml.token_type");
  fixture.types.pop_back();
  ExpectRefused(fixture, "tokenizer.ggml.token_type");
  Fixture empty;
  empty.model = "gpt2";
  ExpectRefused(empty, "tokenizer.ggml.tokens");
  Fixture foreign = BpeFixture({});
  foreign.model = "rwkv";
  ExpectRefused(foreign, "'rwkv' is not supported; supported are llama");
  foreign.model = "gpt2";
  foreign.pre = "no-such";
  ExpectRefused(foreign, "no-such");
}

TEST(VocabularyTest, GenerationEndsAtEosEotAndTheWellKnownControlTokens) {
  Fixture fixture = BpeFixture({});
  const TokenId im_end = fixture.Add("<|im_end|>", kControl);
  const TokenId not_control = fixture.Add("<|eot_id|>", kUser);
  const TokenId other = fixture.Add("<other>", kControl);
  const TokenId eos = fixture.Add("<eos>", kControl);
  const TokenId eot = fixture.Add("<eot>", kNormal);
  fixture.extra = {{"tokenizer.ggml.eos_token_id", uint32_t(eos)},
                   {"tokenizer.ggml.eot_token_id", uint32_t(eot)}};
  auto tokenizer = fixture.MustLoad();
  for (const TokenId end : {im_end, eos, eot}) EXPECT_TRUE(tokenizer->is_end_of_generation(end));
  for (const TokenId id : {not_control, other, TokenId{0}, TokenId{-1}, TokenId{1 << 30}}) {
    EXPECT_FALSE(tokenizer->is_end_of_generation(id)) << id;
  }
  // In Harmony, <|end|> closes a message, not the turn.
  const TokenId end = *tokenizer->FindSpecial("<|end|>");
  EXPECT_TRUE(tokenizer->is_end_of_generation(end));
  fixture.Add("<|return|>", kControl);
  fixture.Add("<|call|>", kControl);
  EXPECT_FALSE(fixture.MustLoad()->is_end_of_generation(end));
}

TEST(VocabularyTest, TheFingerprintFollowsWhatDecidesEncodeAndNothingElse) {
  const Fixture base = SpmFixture(SpmPieces());
  const Fingerprint fingerprint = base.MustLoad()->fingerprint();
  EXPECT_EQ(base.MustLoad()->fingerprint(), fingerprint);
  Fixture same = base;
  same.extra = {{"tokenizer.chat_template", std::string("{{ messages }}")}};
  EXPECT_EQ(same.MustLoad()->fingerprint(), fingerprint);
  EXPECT_EQ(same.MustLoad()->chat_template(), "{{ messages }}");
  Fixture text = base;
  text.texts.back() = "Z";
  EXPECT_NE(text.MustLoad()->fingerprint(), fingerprint);
  Fixture score = base;
  score.scores.back() += 1;
  EXPECT_NE(score.MustLoad()->fingerprint(), fingerprint);
  Fixture type = base;
  type.types.back() = kUnused;
  EXPECT_NE(type.MustLoad()->fingerprint(), fingerprint);
  Fixture flag = base;
  flag.extra = {{"tokenizer.ggml.add_bos_token", false}};
  EXPECT_NE(flag.MustLoad()->fingerprint(), fingerprint);
  Fixture merges = BpeFixture(BpeMerges());
  const Fingerprint bpe = merges.MustLoad()->fingerprint();
  merges.pre = "qwen2";
  EXPECT_NE(merges.MustLoad()->fingerprint(), bpe);
  merges.pre = "gpt-2";
  std::swap(merges.merges[0], merges.merges[1]);
  EXPECT_NE(merges.MustLoad()->fingerprint(), bpe);
}

TEST(VocabularyTest, Phi3MarkersTakeTheBlanksBehindThem) {
  Fixture fixture = SpmFixture(SpmPieces());
  fixture.Add("<|user|>", kControl);
  const EncodeOptions parse = {.add_special = false, .parse_special = true};
  EXPECT_EQ(fixture.MustLoad()->Encode("<|user|>\n the", parse).size(), 4u);
  fixture.extra = {{"general.name", std::string("Phi-3 mini")}};
  EXPECT_EQ(fixture.MustLoad()->Encode("<|user|>\n the", parse).size(), 2u);
}

}  // namespace
}  // namespace kvgate::tokenizer::vocabulary
