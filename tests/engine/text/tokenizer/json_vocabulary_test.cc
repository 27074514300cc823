#include "engine/text/tokenizer/json_vocabulary.h"

#include <gmock/gmock.h>

#include "tests/engine/text/tokenizer/json_fixture.h"

namespace kvgate::tokenizer {
namespace {

using ::testing::HasSubstr;

// Expects that a good file broken by `change` is refused with an error that names `what`.
void ExpectRefused(const std::function<void(Json&)>& change, ErrorCode code, const char* what) {
  Json json = SentencePieceJson();
  change(json);
  const auto result = ParseJsonTokenizer(json);
  ASSERT_FALSE(result) << what;
  EXPECT_EQ(result.error().code, code) << result.error().ToString();
  EXPECT_THAT(result.error().detail, HasSubstr(what));
}

TEST(JsonVocabularyTest, WhatWeDoNotHaveIsNamed) {
  const ErrorCode unsupported = ErrorCode::kUnsupported;
  ExpectRefused([](Json& j) { j["model"]["type"] = "WordPiece"; }, unsupported,
                "model.type 'WordPiece' is not supported; supported are BPE and Unigram");
  ExpectRefused([](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }, unsupported,
                "model.end_of_word_suffix '</w>'");
  ExpectRefused([](Json& j) { j["model"]["dropout"] = 0.1; }, unsupported, "model.dropout");
  ExpectRefused(
      [](Json& j) {
        j["decoder"] = {{"type", "CTC"}};
      },
      unsupported, "decoder.type 'CTC'");
  ExpectRefused([](Json& j) { j["decoder"]["decoders"][3]["start"] = 2; }, unsupported,
                "decoder.decoders[3] strips");
  ExpectRefused(
      [](Json& j) {
        j["post_processor"] = {{"type", "Odd"}};
      },
      unsupported, "post_processor.type 'Odd'");
  ExpectRefused([](Json& j) { j["normalizer"] = {{"type", "Odd"}}; }, unsupported, "'Odd'");
  ExpectRefused([](Json& j) { j["pre_tokenizer"] = {{"type", "Odd"}}; }, unsupported, "'Odd'");
}

TEST(JsonVocabularyTest, WhatMakesNoSenseIsNamed) {
  const ErrorCode bad = ErrorCode::kDataLoss;
  ExpectRefused([](Json& j) { j["model"]["vocab"] = {1}; }, bad, "model.vocab is no object");
  ExpectRefused([](Json& j) { j["model"]["vocab"] = Json::object(); }, bad, "model.vocab is empty");
  ExpectRefused([](Json& j) { j["model"]["vocab"]["x"] = -1; }, bad, "model.vocab is token -1");
  ExpectRefused([](Json& j) { j["model"]["vocab"]["x"] = 9'000'000; }, bad,
                "ids up to 9000000 for");
  ExpectRefused([](Json& j) { j["model"]["vocab"]["x"] = "y"; }, bad, "'x' has no integer id");
  ExpectRefused([](Json& j) { j["model"]["merges"][2] = "a b c"; }, bad, "model.merges[2]");
  ExpectRefused([](Json& j) { j["model"]["merges"][2] = 5; }, bad, "model.merges[2]");
  ExpectRefused([](Json& j) { j["added_tokens"][1]["id"] = "x"; }, bad, "added_tokens[1].id");
  ExpectRefused([](Json& j) { j["post_processor"]["special_tokens"]["<s>"]["ids"][0] = 99999; },
                bad, "post_processor.special_tokens.<s>.ids[0]");
  ExpectRefused([](Json& j) { j["post_processor"]["special_tokens"].erase("<s>"); }, bad,
                "post_processor.special_tokens.<s>.ids");
  EXPECT_THAT(JsonTokenizer::Parse("[]", "").error().detail, HasSubstr("no JSON object"));
  EXPECT_THAT(JsonTokenizer::Parse("{", "").error().detail, HasSubstr("no JSON object"));
  EXPECT_THAT(JsonTokenizer::Parse("{}", "").error().detail, HasSubstr("model.vocab"));
}

TEST(JsonVocabularyTest, UnigramsListIsChecked) {
  Json json = UnigramJson();
  json["model"]["unk_id"] = 99;
  EXPECT_THAT(ParseJsonTokenizer(json).error().detail, HasSubstr("model.unk_id 99 is no token"));
  json = UnigramJson();
  json["model"]["vocab"][3] = {"x", "y"};
  EXPECT_THAT(ParseJsonTokenizer(json).error().detail, HasSubstr("model.vocab[3]"));
  json["model"]["vocab"][3] = {"x", 1e200};
  EXPECT_THAT(ParseJsonTokenizer(json).error().detail, HasSubstr("senseless score"));
}

TEST(JsonVocabularyTest, PostProcessorsPutTokensAtTheEnds) {
  Json json = ByteLevelJson();
  const int end = 256 + static_cast<int>(BpeMerges().size());
  const Json pair = {"<|end|>", end};
  json["post_processor"] = {
      {"type", "Sequence"},
      {"processors",
       {{{"type", "ByteLevel"}}, {{"type", "RobertaProcessing"}, {"cls", pair}, {"sep", pair}}}}};
  const auto tokenizer = MustParse(json);
  const EncodeOptions options = {.add_special = true, .parse_special = true};
  EXPECT_EQ(tokenizer->Encode("a", options), (std::vector<TokenId>{end, 'a', end}));
  // A bos_token other than the one with which the template begins leaves both as they are.
  const auto named = MustParse(json, {{"bos_token", "Ġt"}, {"eos_token", "<|end|>"}});
  EXPECT_EQ(named->bos(), TokenId{256});
  EXPECT_FALSE(named->adds_bos());
  EXPECT_EQ(named->Encode("a", options), (std::vector<TokenId>{end, 'a', end}));
}

TEST(JsonVocabularyTest, TheTemplateNamedDefaultIsTheChatTemplate) {
  const Json templates = {{{"name", "tool"}, {"template", "t"}},
                          {{"name", "default"}, {"template", "d"}}};
  EXPECT_EQ(MustParse(ByteLevelJson(), {{"chat_template", templates}})->chat_template(), "d");
}

}  // namespace
}  // namespace kvgate::tokenizer
