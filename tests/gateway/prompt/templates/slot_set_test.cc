#include "gateway/prompt/templates/slot_set.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "gateway/prompt/templates/masked_line.h"

namespace kvgate::prompt::templates {
namespace {

// A set with line `index` of `text` as its only slot, its words at most merged with `other`.
SlotSet SetOf(std::string_view text, size_t index, std::string_view other = "") {
  const TextLines lines(text, nullptr);
  Slot slot{.id = 7, .form = FormOf(Place::kSystem, lines, index, text), .moves = true};
  if (!other.empty()) {
    slot.form.tokens = CommonTokens(slot.form.tokens, TokensOf(MaskLine(other).text));
  }
  return SlotSet({std::make_shared<const Slot>(slot)});
}

// Returns the lines of `text` that are the slot: "0 3".
std::string Found(const SlotSet& set, std::string_view text, Place place = Place::kSystem) {
  const TextLines lines(text, nullptr);
  std::string found;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!set.Find(place, lines, i, text)) continue;
    found += (found.empty() ? "" : " ") + std::to_string(i);
  }
  return found;
}

TEST(SlotSet, ALineOfThreeWordsIsFoundAnywhere) {
  const SlotSet set = SetOf("rules\nit is now 10:31\nend", 1);
  EXPECT_EQ(Found(set, "it is now 11:00\nother\nrules"), "0");
  EXPECT_EQ(Found(set, "it was now 11:00\nother"), "");
  EXPECT_EQ(Found(set, "it is now 11:00", Place::kTool), "");
}

TEST(SlotSet, ALineOfFewWordsIsFoundBesideItsNeighbour) {
  const SlotSet set = SetOf("id 1\nrules\nend", 0);
  EXPECT_EQ(Found(set, "id 2\nothers\nrules"), "0") << "at the beginning of the text";
  EXPECT_EQ(Found(set, "x\nid 2\nrules"), "1");
  EXPECT_EQ(Found(set, "x\nid 2\ny"), "");
}

TEST(SlotSet, ALineWhoseWordsChangeIsFoundByWhatItKeeps) {
  const SlotSet set =
      SetOf("rules\nYou work on branch main today.\nend", 1, "You work on branch fix-it today.");
  EXPECT_EQ(Found(set, "x\nYou work on branch other today.\ny"), "1");
  EXPECT_EQ(Found(set, "x\nYou work alone.\ny"), "");
  EXPECT_EQ(Found(set, "rules\nYou work on a branch.\nz"), "1") << "half of it, and a neighbour";
  EXPECT_EQ(Found(set, "rules\nBe brief.\nz"), "");
}

TEST(SlotSet, ALineThatIsRepeatedIsFoundBetweenItsNeighbours) {
  const std::string text = "a\nit is now 10:31\nb\nit is now 10:32\nc";
  EXPECT_EQ(Found(SetOf(text, 1), text), "1");
  EXPECT_EQ(Found(SetOf(text, 3), text), "3");
  EXPECT_EQ(Found(SetOf(text, 3), "b\nit is now 11:00\nc\na\nit is now 11:01\nb"), "1");
  EXPECT_EQ(Found(SetOf(text, 3), "a\nit is now 11:00\nx\nit is now 11:01\nc"), "");
}

TEST(SlotSet, WhichOfTwoEqualLinesItIsIsNotKnown) {
  const SlotSet set = SetOf("rules\nit is now 10:31\nend", 1);
  EXPECT_EQ(Found(set, "it is now 10:31\nx\nit is now 10:32"), "");
  EXPECT_EQ(Found(SlotSet(), "it is now 10:31"), "");
}

}  // namespace
}  // namespace kvgate::prompt::templates
