#include "gateway/prompt/diagnose/miss_message.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace kvgate::prompt::diagnose {
namespace {

constexpr auto kNumCauses = static_cast<uint8_t>(kNumBreakCauses);
constexpr auto kNumDetails = static_cast<uint8_t>(BreakDetail::kNoUsage) + 1;

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(MissMessageTest, EveryCauseHasANameAndASentenceOfItsOwn) {
  std::set<std::string_view> names;
  std::set<std::string> verdicts;
  for (uint8_t i = 0; i < kNumCauses; ++i) {
    const auto cause = static_cast<BreakCause>(i);
    names.insert(BreakCauseName(cause));
    const std::string message = MessageOf({.cause = cause});
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
    const std::string message = MessageOf({.cause = cause, .agreement = Agreement::kDisagrees});
    EXPECT_TRUE(Has(message, "provider")) << BreakCauseName(cause);
    EXPECT_FALSE(Has(message, "Nothing you did"));
  }
}

TEST(MissMessageTest, NoModeIsAdvisedThatIsInForceAndARuleThatIsOffIsNamed) {
  int num_offers = 0;
  for (uint8_t i = 0; i < kNumCauses; ++i) {
    for (uint8_t detail = 0; detail < kNumDetails; ++detail) {
      MessageArgs args = {.cause = static_cast<BreakCause>(i),
                          .detail = static_cast<BreakDetail>(detail)};
      const std::string open = MessageOf(args);
      args.treatment = {.pins = true};
      const std::string pinned = MessageOf(args);
      args.treatment = {.pins = true, .stabilizes = true};
      const std::string stable = MessageOf(args);
      args.treatment.rules_off = ~uint32_t{0};
      const std::string off = MessageOf(args);
      args.treatment = {.can_change = false};
      const std::string fixed = MessageOf(args);
      for (const std::string* text : {&open, &pinned, &stable, &off, &fixed}) {
        EXPECT_TRUE(text->ends_with(".")) << *text;
      }
      EXPECT_FALSE(Has(pinned, "mode pin")) << pinned;
      EXPECT_FALSE(Has(stable, " mode ")) << stable;
      EXPECT_FALSE(Has(fixed, " mode ")) << fixed;
      const bool offers = Has(open, "let the mode");
      EXPECT_EQ(offers, Has(off, "switch the rule")) << off;
      EXPECT_EQ(open == stable, !offers);
      num_offers += offers ? 1 : 0;
    }
  }
  EXPECT_GT(num_offers, 20);
}

TEST(MissMessageTest, TheLineThePlannersReasonAndTheOtherConversationAreSaid) {
  EXPECT_TRUE(Has(MessageOf({.cause = BreakCause::kSystemChanged, .line = 12}), "in line 12"));
  EXPECT_FALSE(Has(MessageOf({.cause = BreakCause::kSystemChanged}), "line"));
  MessageArgs args = {.cause = BreakCause::kNotMarked,
                      .treatment = {.pins = true, .plan = "reuse not expected"}};
  EXPECT_TRUE(Has(MessageOf(args), "reason: reuse not expected."));
  args.cause = BreakCause::kProviderMiss;
  EXPECT_FALSE(Has(MessageOf(args), "reuse not expected"));
  args.same_conversation = false;
  EXPECT_TRUE(Has(MessageOf(args), "another conversation"));
}

}  // namespace
}  // namespace kvgate::prompt::diagnose
