#include "gateway/prompt/history/prompt_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvgate::prompt::history {
namespace {

std::vector<uint64_t> MasksOf(std::string_view json) {
  std::vector<uint64_t> masks;
  AddMasks(json, "", masks);
  return masks;
}

LineSketch SketchOfLines(size_t first, size_t num_lines) {
  std::vector<uint64_t> masks;
  for (size_t i = first; i < first + num_lines; ++i) {
    const std::string name(i % 26 + 1, static_cast<char>('a' + i / 26 % 26));
    AddMasks("line " + name + " of " + std::string(i / 676, 'z'), "", masks);
  }
  return SketchOf(std::move(masks));
}

TEST(PromptText, LinesThatDifferInTheirValuesAreOneLine) {
  EXPECT_EQ(MasksOf("It is 10:31:07.\\nGo on."), MasksOf("It is 11:32:09.\\nGo on."));
  EXPECT_NE(MasksOf("It is 10:31:07."), MasksOf("It was 10:31:07."));
}

TEST(PromptText, NoMoreOfATextIsMaskedThanIsWorthIt) {
  std::string text;
  while (text.size() < kMaskedBytes) text += "a line\\n";
  const std::vector<uint64_t> masks = MasksOf(text);
  EXPECT_EQ(MasksOf(text + "another"), masks);
}

TEST(PromptText, SketchesOfShortTextsCountTheirCommonLinesExactly) {
  EXPECT_EQ(NumCommon(SketchOfLines(0, 40), SketchOfLines(10, 50)), 30U);
  EXPECT_EQ(NumCommon(SketchOfLines(0, 40), SketchOfLines(40, 50)), 0U);
  EXPECT_EQ(NumCommon(SketchOfLines(0, 0), SketchOfLines(0, 50)), 0U);
  EXPECT_EQ(SketchOfLines(0, 40).masks.size(), 40U);
}

TEST(PromptText, SketchesOfLongTextsAreBoundedAndCountAboutRight) {
  const LineSketch all = SketchOfLines(0, 2000);
  EXPECT_EQ(all.num_lines, 2000U);
  EXPECT_EQ(all.masks.size(), 64U);
  EXPECT_EQ(NumCommon(all, all), 2000U);
  // Of 64 samples the share is off by 0.06 at the standard deviation.
  EXPECT_NEAR(static_cast<double>(NumCommon(all, SketchOfLines(500, 2000))), 1500.0, 400.0);
  EXPECT_NEAR(static_cast<double>(NumCommon(all, SketchOfLines(0, 1000))), 1000.0, 400.0);
  EXPECT_LT(NumCommon(all, SketchOfLines(2000, 2000)), 100U);
}

// What a thread remembers changes no result, and is found by the whole text.
TEST(AddMasksTest, ATextThatIsReadAgainHasTheSameMasks) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "a line that says " + std::string(1 + i % 40, 'x') + "\\n";
  for (const char* tenant : {"one", "two"}) {
    std::vector<uint64_t> first;
    AddMasks(text, tenant, first);
    std::vector<uint64_t> again = {7};
    AddMasks(text, tenant, again);
    ASSERT_EQ(again.size(), first.size() + 1);
    EXPECT_EQ(again.front(), 7u);
    EXPECT_TRUE(std::equal(first.begin(), first.end(), again.begin() + 1));
    std::vector<uint64_t> other;
    AddMasks(text + "more", tenant, other);
    EXPECT_NE(other, first);
  }
}

}  // namespace
}  // namespace kvgate::prompt::history
