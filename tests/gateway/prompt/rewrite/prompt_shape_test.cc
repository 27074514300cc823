#include "gateway/prompt/rewrite/prompt_shape.h"

#include <gtest/gtest.h>

#include "gateway/prompt/parse/segment_memo.h"
#include "tests/gateway/prompt/conversations.h"

namespace kvgate::prompt::rewrite {
namespace {

using namespace test;  // NOLINT: the helpers of these tests

// The shape of a prompt whose system text has a slot in the given line.
parse::Identity ShapeWith(const std::string& system, int slot_line) {
  parse::SegmentMemo memo(100);
  const std::string body = Request{.system = system, .turns = {Turn("user", "hi")}}.Body();
  const parse::RequestLayout layout = *parse::ReadRequestLayout(Endpoint::kMessages, body, memo);
  Draft draft = MakeDraft(body, layout, nullptr, 0);
  if (slot_line >= 0) {
    auto text = std::make_shared<templates::TextState>();
    text->lines = templates::TextLines(system, nullptr);
    text->slots = {{.line = static_cast<uint32_t>(slot_line), .slot = 7, .first = {}}};
    draft.segments.front().text = text;
  }
  return ShapeOf(
      draft, history::Recognize(
                 {.layout = layout, .body = body, .tenant = {}, .session = {}, .upstream = {}}));
}

TEST(PromptShape, WhatChangesInAPromptIsNoPartOfItsShape) {
  const std::string first = "Be brief.\nYou work on branch main today.";
  const std::string second = "Be brief.\nYou work on branch fix today.";
  EXPECT_EQ(ShapeWith(first, 1), ShapeWith(second, 1));
  EXPECT_NE(ShapeWith(first, -1), ShapeWith(second, -1));
  EXPECT_NE(ShapeWith(first, 1), ShapeWith("Be long.\nYou work on branch main today.", 1));
}

TEST(PromptShape, AConversationBeginsWithTheKnownSlotsThatItHas) {
  parse::SegmentMemo memo(100);
  const std::string body = Request{.system = "one\ntwo", .turns = {Turn("user", "hi")}}.Body();
  const parse::RequestLayout layout = *parse::ReadRequestLayout(Endpoint::kMessages, body, memo);
  Draft draft = MakeDraft(body, layout, nullptr, 0);
  EXPECT_EQ(SlotsOf(draft), nullptr);
  const auto slot = [](uint64_t id) {
    templates::Slot made;
    made.id = id;
    return std::make_shared<const templates::Slot>(made);
  };
  draft.slots =
      std::make_shared<const templates::SlotSet>(templates::SlotSet::Slots{slot(7), slot(8)});
  EXPECT_EQ(SlotsOf(draft), nullptr);
  auto text = std::make_shared<templates::TextState>();
  text->slots = {{.line = 1, .slot = 8, .first = {}}};
  draft.segments.front().text = text;
  ASSERT_NE(SlotsOf(draft), nullptr);
  ASSERT_EQ(SlotsOf(draft)->slots().size(), 1U);
  EXPECT_EQ(SlotsOf(draft)->slots()[0]->id, 8U);
}

}  // namespace
}  // namespace kvgate::prompt::rewrite
