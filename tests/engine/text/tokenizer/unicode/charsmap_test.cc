#include "engine/text/tokenizer/unicode/charsmap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/engine/text/tokenizer/charsmap_fixture.h"
#include "tests/engine/text/tokenizer/fixtures.h"

namespace kvgate::tokenizer::unicode {
namespace {

using ::testing::HasSubstr;

Charsmap Parse(const std::map<std::string, std::string>& rules) {
  auto map = Charsmap::Parse(CharsmapMaker::Make(rules), "key");
  EXPECT_TRUE(map) << map.error().ToString();
  return map ? std::move(*map) : Charsmap();
}

TEST(CharsmapTest, TheLongestRuleReplacesAndTheRestStays) {
  const Charsmap map = Parse({{"ﬁ", "fi"}, {"a", "x"}, {"ab", "y"}, {"\n", " "}, {"é", ""}});
  EXPECT_EQ(map.Normalize("ﬁt abac\né日"), "fit yxc 日");
  EXPECT_EQ(map.Longest("ab")->length, 2u);
  EXPECT_EQ(map.Shortest("ab")->length, 1u);
  EXPECT_FALSE(map.Longest("q"));
  EXPECT_FALSE(map.Longest(""));
}

TEST(CharsmapTest, BytesThatAreNoUtf8BecomeReplacementCharactersOneByOne) {
  EXPECT_EQ(Charsmap().Normalize("a\xFF\xE6\x97"
                                 "b"),
            "a\uFFFD\uFFFD\uFFFDb");
  EXPECT_EQ(Charsmap().NormalizeGraphemes("a\xFF"), "a\xFF");
}

TEST(CharsmapTest, GraphemesGoByTheShortestRuleThatBeginsThem) {
  const Charsmap map = Parse({{"e", "E"}, {"e\u0301", "é"}, {"한", "H"}});
  // A rule that begins a short grapheme replaces all of it.
  EXPECT_EQ(map.NormalizeGraphemes("e\u0301x한"), "ExH");
  // A long grapheme is normalized character by character.
  EXPECT_EQ(map.NormalizeGraphemes("e\u0301\u0302\u0303"), "E\u0301\u0302\u0303");
}

TEST(CharsmapTest, ATableThatDoesNotFitIsRefusedByItsName) {
  const std::string good = CharsmapMaker::Make({{"a", "b"}});
  for (const std::string& bytes :
       {std::string("\1\0", 2), good.substr(0, 100), good + "x", std::string("\3\0\0\0abcd\0", 9),
        std::string("\xFF\xFF\xFF\xFF", 4) + good.substr(4)}) {
    const auto map = Charsmap::Parse(bytes, "the.key");
    ASSERT_FALSE(map);
    EXPECT_EQ(map.error().code, ErrorCode::kDataLoss);
    EXPECT_THAT(map.error().detail, HasSubstr("the.key"));
  }
  EXPECT_TRUE(Charsmap::Parse("", "")->empty());
}

TEST(CharsmapTest, ATableOfNonsenseIsReadWithoutHarm) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    std::string bytes = CharsmapMaker::Make({{"a", "b"}, {"ab", "c"}, {"é", "e"}});
    for (int i = 0; i < 3000; ++i) {
      bytes[4 + random() % (bytes.size() - 5)] = static_cast<char>(random());
    }
    const auto map = Charsmap::Parse(bytes, "key");
    ASSERT_TRUE(map);
    for (int text = 0; text < 20; ++text) {
      map->Normalize(RandomText(random, 20, true));
      map->NormalizeGraphemes(RandomText(random, 20, false));
    }
  }
}

TEST(CharsmapTimingTest, AMegabyteIsNormalisedInLinearTime) {
  const Charsmap map = Parse({{"a", "x"}, {"\u0301", "y"}});
  for (const std::string unit : {"a", "\u0301", "日", "👍", "\xFF", " "}) {
    ExpectGrowsLinearly(unit, 1 << 20, [&](const std::string& text) {
      map.Normalize(text);
      map.NormalizeGraphemes(text);
    });
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace kvgate::tokenizer::unicode
