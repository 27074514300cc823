#include "gateway/prompt/diagnose/miss_message.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace kvgate::prompt::diagnose {
namespace {

constexpr auto kNumCauses = static_cast<uint8_t>(BreakCause::kNotMarked) + 1;

TEST(MissMessageTest, EveryCauseHasANameAndASentenceOfItsOwn) {
  std::set<std::string_view> names;
  std::set<std::string_view> verdicts;
  for (uint8_t i = 0; i < kNumCauses; ++i) {
    const auto cause = static_cast<BreakCause>(i);
    names.insert(BreakCauseName(cause));
    const std::string_view message = MessageOf(cause, BreakDetail::kPlain, Agreement::kSilent);
    EXPECT_TRUE(message.ends_with(".")) << message;
    EXPECT_LT(message.size(), 300u);
    verdicts.insert(message);
  }
  EXPECT_EQ(names.size(), size_t{kNumCauses});
  EXPECT_EQ(verdicts.size(), size_t{kNumCauses});
  EXPECT_EQ(BreakCauseName(BreakCause::kToolsReordered), "tools_reordered");
}

Agreement Held(std::string_view reason, BreakCause cause, std::string_view path = "") {
  return CompareReason(reason, cause, path);
}

TEST(MissMessageTest, AReasonOfTheProvidersAgreesWithCausesOfItsKind) {
  EXPECT_EQ(Held("tools_changed", BreakCause::kToolAdded), Agreement::kAgrees);
  EXPECT_EQ(Held("tools_changed", BreakCause::kToolsReordered), Agreement::kAgrees);
  EXPECT_EQ(Held("tools_changed", BreakCause::kParameterChanged, "tools[3]"), Agreement::kAgrees);
  EXPECT_EQ(Held("messages_changed", BreakCause::kBlockMoved), Agreement::kAgrees);
  EXPECT_EQ(Held("input_changed", BreakCause::kSystemChanged), Agreement::kAgrees);
  EXPECT_EQ(Held("reasoning_effort_changed", BreakCause::kParameterChanged, "reasoning.effort"),
            Agreement::kAgrees);
  EXPECT_EQ(Held("context_compacted", BreakCause::kHistoryTruncated), Agreement::kAgrees);
}

TEST(MissMessageTest, ItDisagreesWithOthersAndOftenSaysNothing) {
  EXPECT_EQ(Held("tools_changed", BreakCause::kSystemChanged), Agreement::kDisagrees);
  EXPECT_EQ(Held("tools_changed", BreakCause::kProviderMiss), Agreement::kDisagrees);
  EXPECT_EQ(Held("tools_changed", BreakCause::kParameterChanged, "speed"), Agreement::kDisagrees);
  EXPECT_EQ(Held("verbosity_changed", BreakCause::kParameterChanged, "reasoning.effort"),
            Agreement::kDisagrees);
  EXPECT_EQ(Held("cache_hit", BreakCause::kProviderMiss), Agreement::kDisagrees);
  for (const char* silent : {"", "pending", "unavailable", "previous_message_not_found",
                             "comparison_response_not_found", "cache_miss", "something new"}) {
    EXPECT_EQ(Held(silent, BreakCause::kSystemChanged), Agreement::kSilent) << silent;
  }
}

TEST(MissMessageTest, WhereTheyDisagreeTheSentenceSaysSo) {
  for (uint8_t i = 1; i < kNumCauses; ++i) {
    const auto cause = static_cast<BreakCause>(i);
    if (cause == BreakCause::kFirstSeen) continue;
    const std::string_view message = MessageOf(cause, BreakDetail::kPlain, Agreement::kDisagrees);
    EXPECT_NE(message.find("provider"), std::string_view::npos) << BreakCauseName(cause);
    EXPECT_EQ(message.find("Nothing you did"), std::string_view::npos);
  }
}

}  // namespace
}  // namespace kvgate::prompt::diagnose
