#include "gateway/prompt/held_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gateway/prompt/conversations.h"

namespace kvgate::prompt {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

auto Lines(std::string_view before, std::string_view now) {
  return NewLines(testing::Block(before), testing::Block(now), Content::kText);
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
    return R"({"type":"tool_result","tool_use_id":"c","content":[)" + testing::Block(first) + "," +
           testing::Block(second) + "]}";
  };
  EXPECT_THAT(NewLines(result("x", "Token usage: 1/9"), result("x", "Token usage: 2/9"),
                       Content::kToolResult),
              Optional(ElementsAre("Token usage: 2/9")));
  EXPECT_FALSE(NewLines(result("x", "Token usage: 1/9"), result("y", "Token usage: 2/9"),
                        Content::kToolResult));
}

}  // namespace
}  // namespace kvgate::prompt
