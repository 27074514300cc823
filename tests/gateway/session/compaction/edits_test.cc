#include "gateway/session/compaction/edits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace kvgate::session::compaction {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(EditsTest, WhatIsNotSaidIsAsItsProviderHasIt) {
  const auto edits = ReadEdits(
      R"([{"type":"clear_thinking_20251015"},{"type":"clear_tool_uses_20250919","trigger":null}])");
  ASSERT_TRUE(edits);
  EXPECT_EQ(edits->thinking->keep, 1);
  EXPECT_EQ(edits->tool_uses->unit, ToolUseEdit::Unit::kInputTokens);
  EXPECT_EQ(edits->tool_uses->trigger, 100'000);
  EXPECT_EQ(edits->tool_uses->keep, 3);
  EXPECT_EQ(edits->tool_uses->tokens_min, 0);
  EXPECT_FALSE(edits->tool_uses->clears_inputs);
  EXPECT_TRUE(ReadEdits("")->empty());
  EXPECT_TRUE(ReadEdits("[]")->empty());
}

TEST(EditsTest, ReadsEachMember) {
  const auto edits = ReadEdits(
      R"([{"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":4}},
          {"type":"clear_tool_uses_20250919","trigger":{"type":"tool_uses","value":9},
           "keep":{"type":"tool_uses","value":0},
           "clear_at_least":{"type":"input_tokens","value":5000},
           "exclude_tools":["a\u0062"],"clear_tool_inputs":["c"]}])");
  ASSERT_TRUE(edits);
  EXPECT_EQ(edits->thinking->keep, 4);
  EXPECT_EQ(edits->tool_uses->unit, ToolUseEdit::Unit::kToolUses);
  EXPECT_EQ(edits->tool_uses->trigger, 9);
  EXPECT_EQ(edits->tool_uses->keep, 0);
  EXPECT_EQ(edits->tool_uses->tokens_min, 5000);
  EXPECT_THAT(edits->tool_uses->excluded, ElementsAre("ab"));
  EXPECT_TRUE(edits->tool_uses->clears_inputs);
  EXPECT_THAT(edits->tool_uses->input_tools, ElementsAre("c"));
}

TEST(EditsTest, AllThinkingMayStay) {
  for (const char* keep : {R"("all")", R"({"type":"all"})"}) {
    const auto edits =
        ReadEdits(std::string(R"([{"type":"clear_thinking_20251015","keep":)") + keep + "}]");
    ASSERT_TRUE(edits);
    EXPECT_FALSE(edits->thinking->keep);
  }
}

TEST(EditsTest, OtherEditsAreNotLookedAt) {
  const auto edits = ReadEdits(R"([{"type":"compact_20260112","trigger":5},{"type":"next"}])");
  ASSERT_TRUE(edits);
  EXPECT_TRUE(edits->empty());
}

TEST(EditsTest, WhatIsWrongIsNamed) {
  const std::string uses = R"({"type":"clear_tool_uses_20250919",)";
  const std::string thinking = R"({"type":"clear_thinking_20251015",)";
  const std::pair<std::string, std::string> wrong[] = {
      {R"({"edits":1})", ""},
      {"[1]", ""},
      {"[" + uses + R"("trigger":5}])", ".trigger"},
      {"[" + uses + R"("trigger":{"type":"turns","value":5}}])", ".trigger.type"},
      {"[" + uses + R"("trigger":{"type":"tool_uses","value":0}}])", ".trigger.value"},
      {"[" + uses + R"("trigger":{"type":"tool_uses","value":"5"}}])", ".trigger.value"},
      {"[" + uses + R"("trigger":{"type":"tool_uses"}}])", ".trigger.value"},
      {"[" + uses + R"("keep":{"type":"tool_uses","value":-1}}])", ".keep.value"},
      {"[" + uses + R"("keep":{"type":"tool_uses","value":"x"}}])", ".keep.value"},
      {"[" + uses + R"("clear_at_least":{"type":"tool_uses","value":1}}])", ".clear_at_least.type"},
      {"[" + uses + R"("exclude_tools":"bash"}])", ".exclude_tools"},
      {"[" + uses + R"("exclude_tools":[1]}])", ".exclude_tools"},
      {"[" + uses + R"("clear_tool_inputs":1}])", ".clear_tool_inputs"},
      {"[" + thinking + R"("keep":{"type":"thinking_turns","value":0}}])", ".keep.value"},
      {"[" + thinking + R"("keep":3}])", ".keep"},
      {"[" + uses + R"("keep":null},)" + thinking + R"("keep":"all"}])", ".type"},
      {"[" + uses + R"("keep":null},)" + uses + R"("keep":null}])", ".type"},
  };
  for (const auto& [list, member] : wrong) {
    const auto edits = ReadEdits(list);
    ASSERT_FALSE(edits) << list;
    EXPECT_EQ(edits.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(edits.error().field, "context_management.edits" + member) << list;
    EXPECT_THAT(edits.error().detail, HasSubstr("it must be"));
  }
}

}  // namespace
}  // namespace kvgate::session::compaction
