#include "engine/text/tokenizer/json_tokenizer.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "base/utf8.h"
#include "tests/engine/model/test_paths.h"
#include "tests/engine/text/tokenizer/json_fixture.h"

namespace kvgate::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(JsonTokenizerTest, ByteLevelBpeIsThatOfTheSameGgufVocabulary) {
  std::mt19937_64 random(21);
  const auto json = MustParse(ByteLevelJson());
  const auto gguf = BpeFixture(BpeMerges()).MustLoad();
  for (int round = 0; round < 1000; ++round) {
    const std::string text = RandomText(random, random() % 30, true);
    for (const bool special : {false, true}) {
      const EncodeOptions options = {.add_special = special, .parse_special = special};
      ASSERT_EQ(json->Encode(text, options), gguf->Encode(text, options)) << text;
    }
    ASSERT_EQ(json->Decode(json->Encode(text, kPlain)), text);
  }
}

TEST(JsonTokenizerTest, MergesMayBePairsOrTexts) {
  Json pairs = ByteLevelJson();
  for (Json& merge : pairs["model"]["merges"]) {
    const std::string text = merge;
    const size_t space = text.find(' ');
    merge = {text.substr(0, space), text.substr(space + 1)};
  }
  EXPECT_EQ(MustParse(pairs)->Encode("then the  thing", kPlain),
            MustParse(ByteLevelJson())->Encode("then the  thing", kPlain));
}

TEST(JsonTokenizerTest, SentencePiecesBpeFallsBackToBytesAndComesBack) {
  std::mt19937_64 random(22);
  const auto tokenizer = MustParse(SentencePieceJson());
  EXPECT_THAT(Texts(*tokenizer, "the thing Ω"),
              ElementsAre(" the", " t", "h", "ing", " ", "\xCE", "\xA9"));
  EXPECT_THAT(Texts(*tokenizer, "the", {}), ElementsAre("<s>", " the"));
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->bos(), TokenId{1});
  for (int round = 0; round < 1000; ++round) {
    const std::string text = RandomText(random, random() % 30, true);
    const std::vector<TokenId> tokens = tokenizer->Encode(text, kPlain);
    ASSERT_EQ(tokenizer->Decode(tokens), text);
    // Streaming gives the same text, except for bytes that are not UTF-8.
    Detokenizer detokenizer(*tokenizer, Detokenizer::Start::kText);
    std::string streamed;
    for (const TokenId token : tokens) streamed += detokenizer.Push(token);
    streamed += detokenizer.Finish();
    std::string expected;
    const size_t taken = AppendValidUtf8(text, expected);
    if (taken < text.size()) expected += kReplacementCharacter;
    ASSERT_EQ(streamed, expected);
  }
}

TEST(JsonTokenizerTest, WithoutBytesTheUnknownTokenStandsForARow) {
  Json json = SentencePieceJson();
  json["model"]["byte_fallback"] = false;
  EXPECT_THAT(Texts(*MustParse(json), "tΩΩ"), ElementsAre(" t", "<unk>"));
  json["model"]["fuse_unk"] = false;
  EXPECT_THAT(Texts(*MustParse(json), "tΩΩ"), ElementsAre(" t", "<unk>", "<unk>"));
  json["model"]["unk_token"] = nullptr;
  EXPECT_THAT(Texts(*MustParse(json), "tΩΩ"), ElementsAre(" t"));
}

TEST(JsonTokenizerTest, UnigramTakesTheBestPieces) {
  const auto tokenizer = MustParse(UnigramJson());
  EXPECT_THAT(Texts(*tokenizer, "the he"), ElementsAre(" the", " ", "h", "e"));
  EXPECT_THAT(Texts(*tokenizer, "日\xFF"), ElementsAre(" ", "<unk>", "<unk>"));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("the he", kPlain)), "the he");
}

TEST(JsonTokenizerTest, AddedTokensStripAndStandAloneAsTheySay) {
  Json json = ByteLevelJson();
  const int first = 256 + static_cast<int>(BpeMerges().size()) + 1;
  Json left = AddedTokenJson(first, "<l>");
  left["lstrip"] = true;
  Json right = AddedTokenJson(first + 1, "<r>");
  right["rstrip"] = true;
  Json word = AddedTokenJson(first + 2, "tok", false);
  word["single_word"] = true;
  for (const Json& token : {left, right, word}) json["added_tokens"].push_back(token);
  const auto tokenizer = MustParse(json);
  const EncodeOptions parse = {.add_special = false, .parse_special = true};
  EXPECT_THAT(Texts(*tokenizer, "a \u3000<l> b <r> \nc", parse),
              ElementsAre("a", "<l>", " ", "b", " ", "<r>", "c"));
  EXPECT_THAT(Texts(*tokenizer, "tok tokx étok", parse).front(), "tok");
  EXPECT_EQ(Texts(*tokenizer, "tok", parse).size(), 1u);
  EXPECT_EQ(Texts(*tokenizer, "tokx", parse).size(), 4u);
  EXPECT_EQ(Texts(*tokenizer, "étok", parse).size(), 4u);
}

TEST(JsonTokenizerTest, NormalizedTokensAreFoundInNormalisedText) {
  Json json = ByteLevelJson();
  json["normalizer"] = {{"type", "Lowercase"}};
  json["added_tokens"].push_back(AddedTokenJson(300, "<Tool>", false));
  const auto tokenizer = MustParse(json);
  EXPECT_THAT(Texts(*tokenizer, "A<TOOL>b"), ElementsAre("a", "<Tool>", "b"));
  EXPECT_EQ(tokenizer->FindSpecial("<|end|>"), TokenId{256 + static_cast<int>(BpeMerges().size())});
}

TEST(JsonTokenizerTest, AnAddedTokenThatTheModelHasKeepsItsId) {
  Json json = ByteLevelJson();
  json["added_tokens"].push_back(AddedTokenJson(5000, "the", false));
  json["model"]["vocab"]["the"] = 290;
  EXPECT_THAT(MustParse(json)->Encode("the", kPlain), ElementsAre(290));
}

TEST(JsonTokenizerTest, TheFolderSaysWhatBosEosAndTheTemplateAre) {
  const TempFolder directory;
  const std::filesystem::path folder = directory / "model";
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "tokenizer.json") << SentencePieceJson().dump();
  std::ofstream(folder / "tokenizer_config.json")
      << R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": "old"})";
  auto tokenizer = Tokenizer::LoadFile(folder);
  ASSERT_TRUE(tokenizer) << tokenizer.error().ToString();
  EXPECT_EQ((*tokenizer)->bos(), TokenId{1});
  EXPECT_TRUE((*tokenizer)->is_end_of_generation(2));
  EXPECT_EQ((*tokenizer)->chat_template(), "old");
  std::ofstream(folder / "chat_template.jinja") << "new";
  tokenizer = Tokenizer::LoadFile(folder / "tokenizer.json");
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ((*tokenizer)->chat_template(), "new");
  EXPECT_EQ(Tokenizer::LoadFile(directory / "none.json").error().code, ErrorCode::kNotFound);
}

// The texts are found both in a Hugging Face folder and in a GGUF file that was made of one.
TEST(JsonTokenizerTest, TheTextsMayStandInAModelFile) {
  const TempFolder directory;
  const Json config = {{"eos_token", "</s>"}, {"chat_template", "old"}};
  const auto load = [&](const std::function<void(modelfile::GgufWriter&)>& add) {
    modelfile::GgufWriter writer;
    add(writer);
    const auto fill = [](const auto&, int64_t, std::span<std::byte>) {};
    EXPECT_TRUE(writer.Write(directory / "m.gguf", fill).has_value());
    return Tokenizer::LoadFile(directory / "m.gguf");
  };
  const auto add_texts = [&](modelfile::GgufWriter& writer) {
    writer.Add(std::string(modelfile::kTokenizerJsonKey), SentencePieceJson().dump());
    writer.Add(std::string(modelfile::kTokenizerConfigKey), config.dump());
  };
  auto tokenizer = load(add_texts);
  ASSERT_TRUE(tokenizer) << tokenizer.error().ToString();
  const auto expected = MustParse(SentencePieceJson(), config);
  EXPECT_EQ((*tokenizer)->fingerprint(), expected->fingerprint());
  EXPECT_EQ((*tokenizer)->eos(), TokenId{2});
  EXPECT_EQ((*tokenizer)->chat_template(), "old");
  EXPECT_FALSE((*tokenizer)->is_end_of_generation(7));
  tokenizer = load([&](modelfile::GgufWriter& writer) {
    add_texts(writer);
    writer.Add("tokenizer.chat_template", std::string("new"));
    writer.AddIntegers(std::string(modelfile::kEndTokensKey), {7, 100'000});
  });
  ASSERT_TRUE(tokenizer) << tokenizer.error().ToString();
  EXPECT_EQ((*tokenizer)->chat_template(), "new");
  EXPECT_TRUE((*tokenizer)->is_end_of_generation(7));
  EXPECT_TRUE((*tokenizer)->is_end_of_generation(2));
  const auto bad = load([](modelfile::GgufWriter& writer) {
    writer.Add(std::string(modelfile::kTokenizerJsonKey), uint32_t{7});
  });
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().detail, HasSubstr(std::string(modelfile::kTokenizerJsonKey)));
}

TEST(JsonTokenizerTest, TheFingerprintFollowsWhatDecidesEncode) {
  const Fingerprint fingerprint = MustParse(ByteLevelJson())->fingerprint();
  EXPECT_EQ(MustParse(ByteLevelJson())->fingerprint(), fingerprint);
  Json json = ByteLevelJson();
  json["normalizer"] = {{"type", "NFC"}};
  EXPECT_NE(MustParse(json)->fingerprint(), fingerprint);
  json = ByteLevelJson();
  json["model"]["ignore_merges"] = true;
  EXPECT_NE(MustParse(json)->fingerprint(), fingerprint);
  json = ByteLevelJson();
  json["added_tokens"][0]["rstrip"] = true;
  EXPECT_NE(MustParse(json)->fingerprint(), fingerprint);
}

TEST(JsonTokenizerTimingTest, AMegabyteIsEncodedInLinearTime) {
  for (const Json& json : {ByteLevelJson(), SentencePieceJson(), UnigramJson()}) {
    const auto tokenizer = MustParse(json);
    for (const std::string unit : {"a", "the", "日", " ", "\xFF", "\u0301", "a\xFF", "!"}) {
      ExpectGrowsLinearly(unit, 1 << 20,
                          [&](const std::string& text) { tokenizer->Encode(text, kPlain); });
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace kvgate::tokenizer
