#include "gateway/prompt/templates/template.h"

#include <gtest/gtest.h>

#include "gateway/prompt/templates/masked_line.h"

namespace kvgate::prompt::templates {
namespace {

Template Learnt() {
  const std::string text = "rules\nit is now 10:31 on main\nend";
  const TextLines lines(text, nullptr);
  const Slot slot{.id = 7, .form = FormOf(Place::kSystem, lines, 1, text), .moves = true};
  return {.slot = std::make_shared<const Slot>(slot),
          .is_slot = true,
          .pattern = MaskLine("it is now 10:31 on main").text,
          .value_changes = 3,
          .conversations = 2,
          .begun = 9,
          .begun_changed = 4,
          .last_line = 11,
          .line_tokens = 6,
          .stake_tokens = 1000};
}

TEST(Template, ItIsReadByPeople) {
  Template it = Learnt();
  EXPECT_EQ(LineOf(it), "it is now <*> on main");
  EXPECT_EQ(
      WhyOf(it),
      "moves behind the stable prefix: 4 of 9 conversations began with another line, and 1000 "
      "tokens are lost with it");
  it.is_slot = false;
  it.word_changes = 2;
  EXPECT_EQ(WhyOf(it), "stays as written: its words changed 2 of 3 times");
}

TEST(Template, TheExpectedCostDecidesIfItMoves) {
  Template it = Learnt();
  EXPECT_TRUE(ShouldMove(it, true));
  it.begun = 100'000;
  EXPECT_FALSE(ShouldMove(it, true)) << "5 of 100,000";
  it.begun = 1000;
  EXPECT_TRUE(ShouldMove(it, true)) << "a change has to be worth its cost";
  EXPECT_FALSE(ShouldMove(it, false));
}

}  // namespace
}  // namespace kvgate::prompt::templates
