#include "gateway/prompt/history/ephemeral.h"

#include <gtest/gtest.h>

#include "gateway/prompt/parse/segment_memo.h"
#include "tests/gateway/prompt/conversations.h"

namespace kvgate::prompt::history {

using parse::Role;

namespace {

using namespace test;  // NOLINT: the helpers of these tests

TEST(EphemeralTest, OnlyWhatAgentsWriteInTheirTagsIs) {
  for (const std::string_view text :
       {"<system-reminder>Use tabs.</system-reminder>", " ", "",
        "<info-msg>It is currently 10:30</info-msg>\n<total_tokens>9 tokens left</total_tokens>"}) {
    EXPECT_TRUE(ReadEphemeral(text, Role::kUser)) << text;
    EXPECT_TRUE(ReadEphemeral(text, Role::kTool)) << text;
  }
  for (const std::string_view text :
       {"2026-11-22", "Current date: 2026-11-22", "0f8fad5b-d9cb-469f-a165-70867728950e",
        "Token usage: 5/9", "gitStatus: now\nStatus:\nM a.c", "<timestamp>10:30</timestamp>",
        "<files>a.c</files>", "<system-reminder>a</system-reminder> b",
        "<system-reminder>a</system-reminder>\n2026-11-22"}) {
    EXPECT_FALSE(ReadEphemeral(text, Role::kUser)) << text;
  }
}

TEST(EphemeralTest, InASystemTurnValuesOfProgramsAreToo) {
  EXPECT_TRUE(ReadEphemeral("Token usage: 5/9", Role::kSystem));
  EXPECT_TRUE(ReadEphemeral("Current date: 2026-11-22", Role::kDeveloper));
  EXPECT_FALSE(ReadEphemeral("Working directory: /src", Role::kSystem));
  EXPECT_FALSE(ReadEphemeral("Be brief.", Role::kSystem));
}

TEST(EphemeralTest, ItMayStayWhileItIsSaidOrSaidBehindWithOtherValues) {
  const std::string body =
      Request{.turns = {TurnOf("user", {Block("<system-reminder>Use tabs.</system-reminder>"),
                                        Block("one")}),
                        Turn("assistant", "<system-reminder>No.</system-reminder>"),
                        Turn("user", "two\n<info-msg>It is currently 2026-11-22 10:30</info-msg>")}}
          .Body();
  parse::SegmentMemo memo(100);
  const Result<parse::RequestLayout> layout =
      parse::ReadRequestLayout(Endpoint::kMessages, body, memo);
  SaidNow said(body, layout->segments);
  const auto covers = [&](std::string_view text, size_t from = 0) {
    return said.Covers({.text = std::string(text), .kind = parse::VolatileKind::kReminder}, from);
  };
  EXPECT_TRUE(covers("<system-reminder>Use tabs.</system-reminder>", 3));
  EXPECT_FALSE(covers("<system-reminder>Use spaces.</system-reminder>"));
  EXPECT_FALSE(covers("<system-reminder>No.</system-reminder>"));
  EXPECT_TRUE(covers("<info-msg>It is currently 2026-11-22 10:15</info-msg>"));
  EXPECT_FALSE(
      covers("<info-msg>It is currently 2026-11-22 10:15</info-msg>", layout->segments.size()));
  EXPECT_FALSE(covers("<info-msg>It was 2026-11-22 10:15</info-msg>"));
}

}  // namespace
}  // namespace kvgate::prompt::history
