#include "gateway/prompt/history/held_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gateway/prompt/conversations.h"

namespace kvgate::prompt::history {

using parse::Content;

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

std::optional<std::vector<std::string>> ChangedOf(std::optional<HeldText> held) {
  if (!held) return std::nullopt;
  return held->changed;
}
auto Lines(std::string_view before, std::string_view now) {
  return ChangedOf(CompareHeld(test::Block(before), test::Block(now), Content::kText));
}
std::vector<std::string> Left(std::string_view before, std::string_view now) {
  const std::optional<HeldText> held =
      CompareHeld(test::Block(before), test::Block(now), Content::kText);
  std::vector<std::string> left;
  for (const Ephemeral& one : held.value_or(HeldText{}).left) left.push_back(one.text);
  return left;
}

TEST(HeldTextTest, AReminderMayLeaveAndItsValuesMayChange) {
  EXPECT_THAT(Lines("plan\n\n<system-reminder>Read only.</system-reminder>", "plan"),
              Optional(IsEmpty()));
  EXPECT_THAT(Lines("<system-reminder>a\nToday's date is 2026-11-22.</system-reminder>\nGo.",
                    "<system-reminder>a\nToday's date is 2026-11-23.</system-reminder>\nGo."),
              Optional(ElementsAre("Today's date is 2026-11-23.")));
  EXPECT_THAT(Lines("<system-reminder>a</system-reminder>\n<info-msg>b</info-msg>\nGo.",
                    "<info-msg>b</info-msg>\nGo."),
              Optional(IsEmpty()));
}

TEST(HeldTextTest, AnyValuesOfAReminderMayChangeAndItsWordsMayNot) {
  const auto reminder = [](std::string_view line) {
    return "<system-reminder>\nRules.\n" + std::string(line) + "\n</system-reminder>\nGo.";
  };
  EXPECT_THAT(Lines(reminder("You are in /a as of 9:00 (call 1)."),
                    reminder("You are in /b as of 9:05 (call 2).")),
              Optional(ElementsAre("You are in /b as of 9:05 (call 2).")));
  EXPECT_FALSE(Lines(reminder("You are in /a as of 9:00 (call 1)."),
                     reminder("You may write in /a as of 9:00 (call 1).")));
  EXPECT_FALSE(Lines("You are in /a as of 9:00 (call 1).", "You are in /a as of 9:00 (call 2)."))
      << "a user's own words";
  const auto result = [&](std::string_view line) {
    return R"({"type":"tool_result","tool_use_id":"c","content":)" + test::Quoted(reminder(line)) +
           "}";
  };
  EXPECT_FALSE(CompareHeld(result("You are in /a as of 9:00 (call 1)."),
                           result("You are in /a as of 9:00 (call 2)."), Content::kToolResult));
}

TEST(HeldTextTest, WhatHasLeftIsNamed) {
  EXPECT_THAT(Left("plan\n\n<system-reminder>Read only.</system-reminder>", "plan"),
              ElementsAre("<system-reminder>Read only.</system-reminder>"));
  EXPECT_THAT(Left("<system-reminder>a</system-reminder>\n<info-msg>b</info-msg>\nGo.\n2026-11-22",
                   "<info-msg>b</info-msg>\nGo."),
              ElementsAre("<system-reminder>a</system-reminder>", "2026-11-22"));
  EXPECT_THAT(Left("Current date: 2026-11-22\nGo.", "Current date: 2026-11-23\nGo."), IsEmpty());
}

TEST(HeldTextTest, NewTextMayNot) {
  EXPECT_FALSE(Lines("<system-reminder>Use spaces.</system-reminder>\nGo.",
                     "<system-reminder>Use tabs.</system-reminder>\nGo."));
  EXPECT_FALSE(Lines("Go.", "<system-reminder>Use tabs.</system-reminder>\nGo."));
  EXPECT_FALSE(Lines("<system-reminder>a</system-reminder>\nGo.",
                     "<system-reminder>a</system-reminder>\nStop."));
  EXPECT_FALSE(Lines("<system-reminder>a</system-reminder>\nGo.",
                     "<system-reminder>a</system-reminder>\n\n\nGo."));
  EXPECT_FALSE(Lines("gitStatus: now\nStatus:\nM a.c\n", "gitStatus: now\nStatus:\nM b.c\n"));
}

TEST(HeldTextTest, EveryTextOfAValueCounts) {
  const auto result = [](std::string_view first, std::string_view second) {
    return R"({"type":"tool_result","tool_use_id":"c","content":[)" + test::Block(first) + "," +
           test::Block(second) + "]}";
  };
  EXPECT_THAT(ChangedOf(CompareHeld(result("x", "Token usage: 1/9"),
                                    result("x", "Token usage: 2/9"), Content::kToolResult)),
              Optional(ElementsAre("Token usage: 2/9")));
  EXPECT_FALSE(CompareHeld(result("x", "Token usage: 1/9"), result("y", "Token usage: 2/9"),
                           Content::kToolResult));
}

}  // namespace
}  // namespace kvgate::prompt::history
