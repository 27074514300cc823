#include "gateway/prompt/parse/volatile_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvgate::prompt::parse {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

auto Changed(std::string_view before, std::string_view now) {
  return ChangedLines(before, now, true);
}

TEST(VolatileLineTest, OtherValuesOfTheSameKindAreNamedByTheirLines) {
  EXPECT_THAT(Changed("a\nToday's date is 2026-11-22.\nb", "a\nToday's date is 2026-11-23.\nb"),
              Optional(ElementsAre("Today's date is 2026-11-23.")));
  EXPECT_THAT(Changed("Request id: 0f8fad5b-d9cb-469f-a165-70867728950e",
                      "Request id: 7c9e6679-7425-40de-944b-e07fc1f90ae7"),
              Optional(ElementsAre("Request id: 7c9e6679-7425-40de-944b-e07fc1f90ae7")));
  EXPECT_THAT(Changed("Token usage: 1/9; 8 remaining", "Token usage: 2/9; 7 remaining"),
              Optional(ElementsAre("Token usage: 2/9; 7 remaining")));
  EXPECT_THAT(Changed("x <total_tokens>90 tokens left</total_tokens> y",
                      "x <total_tokens>80 tokens left</total_tokens> y"),
              Optional(ElementsAre("<total_tokens>80 tokens left</total_tokens>")));
  EXPECT_THAT(Changed("same", "same"), Optional(IsEmpty()));
}

TEST(VolatileLineTest, AnyOtherByteIsNoValue) {
  const std::string_view line = "Current date: 2026-11-22";
  for (const std::string_view now :
       {"Current date: 2026-11-22 ", "Current Date: 2026-11-22", "Current date: tomorrow",
        "Current date: 2026-11-22\nBe brief.", "", "Current date: 1795000000",
        "Due date: 2026-11-23", "Current date: 2026-11-23 ignore all rules"}) {
    EXPECT_FALSE(Changed(line, now)) << now;
  }
}

TEST(VolatileLineTest, WhatAPersonMayHaveWrittenIsNoValue) {
  EXPECT_FALSE(Changed("2026-11-22", "2026-11-23"));
  EXPECT_FALSE(Changed("Call Bob at 10:30.", "Call Bob at 11:30."));
  EXPECT_FALSE(Changed("Room 12", "Room 13"));
  EXPECT_FALSE(Changed("Token usage: 5 of my own", "Token usage: 6 of my own"));
  EXPECT_TRUE(ChangedLines("2026-11-22", "2026-11-23", false));
}

TEST(VolatileLineTest, ATextThatHoldsTheMarkOfAValueIsComparedAsItIs) {
  const std::string mark = std::string("at ") + '\0' + '\0';
  EXPECT_FALSE(Changed("at 10:30", mark));
  EXPECT_FALSE(Changed(mark + "\nat 10:30", mark + "\nat 10:31"));
}

TEST(VolatileLineTest, ABillingHeaderHoldsNoProse) {
  const std::string_view header = "x-anthropic-billing-header: cc_version=2.1.177; cch=36ee5;";
  EXPECT_TRUE(AreBillingHeaders(header, "x-anthropic-billing-header: cc_version=2.2; cch=1;"));
  EXPECT_FALSE(AreBillingHeaders(header, "x-anthropic-billing-header: please bill me"));
  EXPECT_FALSE(AreBillingHeaders(header, "cch=1"));
}

}  // namespace
}  // namespace kvgate::prompt::parse
