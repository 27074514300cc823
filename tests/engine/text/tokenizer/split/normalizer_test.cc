#include "engine/text/tokenizer/split/normalizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kvgate::tokenizer::split {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

Result<Normalizer> Parse(const Json& json) {
  return Normalizer::FromJson(JsonNode(json, "normalizer"));
}

std::string Apply(const Json& json, std::string_view text, bool continues = false) {
  const auto normalizer = Parse(json);
  EXPECT_TRUE(normalizer) << normalizer.error().ToString();
  return normalizer ? normalizer->Apply(text, continues) : "";
}

TEST(NormalizerTest, EachTypeDoesWhatItsNameSays) {
  EXPECT_EQ(Apply({{"type", "NFC"}}, "e\u0301"), "\u00e9");
  EXPECT_EQ(Apply({{"type", "NFKD"}}, "ﬁ"), "fi");
  EXPECT_EQ(Apply({{"type", "Lowercase"}}, "ABc"), "abc");
  EXPECT_EQ(Apply({{"type", "StripAccents"}}, "e\u0301"), "e");
  EXPECT_EQ(Apply({{"type", "Strip"}}, "\u3000 a b\n"), "a b");
  EXPECT_EQ(Apply({{"type", "Strip"}, {"strip_left", false}}, " a "), " a");
  EXPECT_EQ(Apply({{"type", "Prepend"}, {"prepend", "▁"}}, "a"), "▁a");
  EXPECT_EQ(Apply({{"type", "Prepend"}, {"prepend", "▁"}}, "a", true), "a");
  EXPECT_EQ(Apply({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}, "a b"),
            "a▁b");
  EXPECT_EQ(Apply(nullptr, "a"), "a");
}

TEST(NormalizerTest, ASequenceAppliesItsStepsInOrder) {
  const Json sequence = {{"type", "Sequence"},
                         {"normalizers",
                          {{{"type", "Prepend"}, {"prepend", " "}},
                           {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "_"}},
                           {{"type", "Lowercase"}}}}};
  EXPECT_EQ(Apply(sequence, "A B"), "_a_b");
}

TEST(NormalizerTest, APrecompiledTableIsBase64) {
  // This table has no units and one empty replacement, so it has no rules.
  EXPECT_EQ(Apply({{"type", "Precompiled"}, {"precompiled_charsmap", "AAAAAAA="}}, "a"), "a");
  EXPECT_EQ(Apply({{"type", "Precompiled"}, {"precompiled_charsmap", nullptr}}, "a"), "a");
  EXPECT_THAT(Parse({{"type", "Precompiled"}, {"precompiled_charsmap", "A*"}}).error().detail,
              HasSubstr("normalizer.precompiled_charsmap"));
  EXPECT_THAT(Parse({{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}}).error().detail,
              HasSubstr("normalizer.precompiled_charsmap"));
}

TEST(NormalizerTest, AnUnknownTypeIsNamedByItsPath) {
  const auto result =
      Parse({{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "Nmt"}}}}});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(result.error().detail, HasSubstr("normalizer.normalizers[1].type 'Nmt'"));
}

TEST(NormalizerTest, HostileStepsNeitherNestNorGrowWithoutEnd) {
  Json nested = {{"type", "NFC"}};
  for (int i = 0; i < 100; ++i) nested = {{"type", "Sequence"}, {"normalizers", {nested}}};
  EXPECT_THAT(Parse(nested).error().detail, HasSubstr("nested too deeply"));
  Json growing = {{"type", "Sequence"}, {"normalizers", Json::array()}};
  for (int i = 0; i < 60; ++i) {
    growing["normalizers"].push_back(
        {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
  }
  EXPECT_LT(Apply(growing, "a").size(), 10000u);
}

}  // namespace
}  // namespace kvgate::tokenizer::split
