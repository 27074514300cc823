#include "gateway/dialect/reply/reply_choice.h"

#include <gtest/gtest.h>

namespace kvgate::dialect::reply {

using form::DeltaKind;

namespace {

TEST(ReplyChoiceTest, DeltasBecomeBlocksInOrderAndAMessage) {
  ReplyChoice choice(3);
  choice.Add({.kind = DeltaKind::kReasoning, .text = "h"});
  choice.Add({.kind = DeltaKind::kReasoning, .text = "m"});
  choice.Add({.text = "a"});
  choice.Add({.kind = DeltaKind::kCall, .text = "f", .call_id = "1"});
  choice.Add({.kind = DeltaKind::kArguments, .text = "{"});
  choice.Add({.kind = DeltaKind::kArguments, .text = "}"});
  choice.Add({.kind = DeltaKind::kCallEnd});
  choice.Add({.text = "b", .finish = form::FinishReason::kLength});
  ASSERT_EQ(choice.blocks().size(), 4u);
  EXPECT_EQ(choice.blocks()[0].text, "hm");
  EXPECT_EQ(choice.blocks()[2].text, "{}");
  EXPECT_EQ(choice.Text(DeltaKind::kText), "ab");
  EXPECT_EQ(choice.finish(), form::FinishReason::kLength);
  EXPECT_EQ(choice.ToMessage(),
            (form::Message{.role = "assistant",
                           .content = "ab",
                           .reasoning = "hm",
                           .tool_calls = {{.id = "1", .name = "f", .arguments = "{}"}}}));
}

}  // namespace
}  // namespace kvgate::dialect::reply
