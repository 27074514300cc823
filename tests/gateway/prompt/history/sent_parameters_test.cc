#include "gateway/prompt/history/sent_parameters.h"

#include <gtest/gtest.h>

#include "gateway/prompt/parse/segment_memo.h"

namespace kvgate::prompt::history {
namespace {

TEST(SentParameters, ThoseThatAffectPromptOrCacheAreKeptAndCut) {
  parse::SegmentMemo memo(10);
  const std::string effort = "\"" + std::string(400, 'x') + "\"";
  const std::string body = R"({"model":"m","stream":true,"temperature":1,"tool_choice":"auto",)"
                           R"("reasoning_effort":)" +
                           effort + R"(,"messages":[{"role":"user","content":"hi"}]})";
  const auto layout =
      parse::ReadRequestLayout(dialect::form::Endpoint::kChatCompletions, body, memo);
  ASSERT_TRUE(layout);
  const std::vector<SentParameter> kept = ParametersOf(body, *layout);
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept[0].name, "tool_choice");
  EXPECT_EQ(kept[0].value, "\"auto\"");
  EXPECT_EQ(kept[1].name, "reasoning_effort");
  EXPECT_EQ(kept[1].value, effort.substr(0, 256));
  EXPECT_FALSE(kept[1].is_ours);
}

}  // namespace
}  // namespace kvgate::prompt::history
