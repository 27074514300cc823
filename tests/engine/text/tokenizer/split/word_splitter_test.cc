#include "engine/text/tokenizer/split/word_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kvgate::tokenizer::split {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

Result<WordSplitter> Parse(const Json& json) {
  return WordSplitter::FromJson(JsonNode(json, "pre_tokenizer"));
}

std::vector<std::string> Words(const Json& json, std::string_view text,
                               const WordSplitter::Place& place = {}) {
  const auto splitter = Parse(json);
  EXPECT_TRUE(splitter) << splitter.error().ToString();
  const WordSplitter::Words words = splitter->Split(text, place);
  return {words.words.begin(), words.words.end()};
}

Json Split(const char* regex, const char* behavior, bool invert = false) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", regex}}},
          {"behavior", behavior},
          {"invert", invert}};
}

TEST(WordSplitterTest, MatchesAreTreatedAsTheBehaviorSays) {
  EXPECT_THAT(Words(Split("-", "Removed"), "a--b-"), ElementsAre("a", "b"));
  EXPECT_THAT(Words(Split("-", "Isolated"), "a--b-"), ElementsAre("a", "-", "-", "b", "-"));
  EXPECT_THAT(Words(Split("-", "Contiguous"), "a--b-"), ElementsAre("a", "--", "b", "-"));
  EXPECT_THAT(Words(Split("-", "MergedWithPrevious"), "a--b-"), ElementsAre("a-", "-", "b-"));
  EXPECT_THAT(Words(Split("-", "MergedWithNext"), "a--b-"), ElementsAre("a", "-", "-b", "-"));
  EXPECT_THAT(Words(Split("[a-z]+", "Removed", true), "ab-cd"), ElementsAre("ab", "cd"));
}

TEST(WordSplitterTest, MetaspaceMarksBlanksAndPrependsBySchema) {
  Json metaspace = {{"type", "Metaspace"}, {"replacement", "▁"}};
  EXPECT_THAT(Words(metaspace, "a  b"), ElementsAre("▁a", "▁", "▁b"));
  EXPECT_THAT(Words(metaspace, "a", {.is_text_start = false, .continues = true}), ElementsAre("a"));
  metaspace["prepend_scheme"] = "never";
  EXPECT_THAT(Words(metaspace, "a b"), ElementsAre("a", "▁b"));
  metaspace["prepend_scheme"] = "first";
  EXPECT_THAT(Words(metaspace, "a b"), ElementsAre("▁a", "▁b"));
  EXPECT_THAT(Words(metaspace, "a b", {.is_text_start = false, .continues = false}),
              ElementsAre("a", "▁b"));
  metaspace["split"] = false;
  EXPECT_THAT(Words(metaspace, "a b"), ElementsAre("▁a▁b"));
}

TEST(WordSplitterTest, ByteLevelCutsAsGpt2DoesUnlessToldNotTo) {
  Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", true}};
  EXPECT_TRUE(Parse(bytes)->is_byte_level());
  EXPECT_THAT(Words(bytes, "it's ok"), ElementsAre(" it", "'s", " ok"));
  bytes["use_regex"] = false;
  EXPECT_THAT(Words(bytes, " it's"), ElementsAre(" it's"));
}

TEST(WordSplitterTest, StepsBehindByteLevelSeeTheSpelling) {
  // Byte-level spelling writes the byte 0xB2 of è² as ², a digit.
  const Json steps = {{"type", "Sequence"},
                      {"pretokenizers",
                       {{{"type", "ByteLevel"}, {"add_prefix_space", false}},
                        {{"type", "Digits"}, {"individual_digits", false}}}}};
  EXPECT_THAT(Words(steps, "Ӳ12"), ElementsAre("\xD3", "\xB2", "12"));
}

TEST(WordSplitterTest, SmallTypesCutWhatTheyName) {
  EXPECT_THAT(Words({{"type", "Digits"}, {"individual_digits", true}}, "a12"),
              ElementsAre("a", "1", "2"));
  EXPECT_THAT(Words({{"type", "Digits"}}, "a12½"), ElementsAre("a", "12½"));
  EXPECT_THAT(Words({{"type", "Punctuation"}}, "a!?…b"), ElementsAre("a", "!", "?", "…", "b"));
  EXPECT_THAT(Words({{"type", "Whitespace"}}, "a_1 -- b!"), ElementsAre("a_1", "--", "b", "!"));
  EXPECT_THAT(Words({{"type", "WhitespaceSplit"}}, " a-\u3000b"), ElementsAre("a-", "b"));
  EXPECT_THAT(Words({{"type", "BertPreTokenizer"}}, "a-b c"), ElementsAre("a", "-", "b", "c"));
  EXPECT_THAT(Words(nullptr, "a b"), ElementsAre("a b"));
  EXPECT_THAT(Words(nullptr, ""), ElementsAre());
}

TEST(WordSplitterTest, WhatWeDoNotHaveIsNamed) {
  EXPECT_THAT(Parse({{"type", "UnicodeScripts"}}).error().detail,
              HasSubstr("pre_tokenizer.type 'UnicodeScripts'"));
  EXPECT_THAT(Parse(Split("a", "Sideways")).error().detail,
              HasSubstr("pre_tokenizer.behavior 'Sideways'"));
  EXPECT_THAT(
      Parse({{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "x"}}).error().detail,
      HasSubstr("prepend_scheme 'x'"));
}

}  // namespace
}  // namespace kvgate::tokenizer::split
