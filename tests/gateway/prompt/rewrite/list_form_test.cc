#include "gateway/prompt/rewrite/list_form.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "gateway/prompt/parse/segment_text.h"
#include "tests/gateway/prompt/conversations.h"

namespace kvgate::prompt::rewrite {
namespace {

using namespace test;  // NOLINT: the helpers of these tests

std::string Noted(std::string_view words, std::string_view value) {
  return std::string(words) + "\n\n<a-notice>\nmode: \"" + std::string(value) + "\"}]\n</a-notice>";
}

class ListForms : public ::testing::TestWithParam<Endpoint> {
 protected:
  ListForms() {
    caller_.planner().mark_last = true;
    caller_.session = "one";
  }
  Request Start(const std::string& user) const {
    return {.endpoint = GetParam(), .system = "Be brief.", .turns = {Turn("user", user)}};
  }
  // Returns the turn at `index` of what goes out for the request.
  json Sent(const Request& request, size_t index) {
    const json body = json::parse(caller_.Send(request));
    return body[GetParam() == Endpoint::kResponses ? "input" : "messages"][index]["content"];
  }
  const planner::PlanSegment& PlannedAt(size_t index) {
    return caller_.planner().seen.back()[index];
  }
  // Chat's system prompt is the first of the messages.
  size_t first() const { return GetParam() == Endpoint::kChatCompletions ? 1 : 0; }
  Caller caller_{Mode::kStabilize, "somebody"};
};

TEST_P(ListForms, ANoticeIsABlockBehindTheBreakpoint) {
  const json sent = Sent(Start(Noted("fix it", "plan")), first());
  ASSERT_EQ(sent.size(), 2U) << sent;
  EXPECT_EQ(sent[0]["text"], "fix it");
  EXPECT_TRUE(sent[0].contains("cache_control") || sent[0].contains("prompt_cache_breakpoint"));
  EXPECT_EQ(sent[1].size(), 2U) << "no breakpoint stands on the notice";
  EXPECT_EQ(std::string(sent[0]["text"]) + std::string(sent[1]["text"]), Noted("fix it", "plan"));
}

TEST_P(ListForms, ItsWordsGoOutAsBeforeWhenTheNoticeChangesOrGoes) {
  Request request = Start(Noted("fix it", "plan"));
  const json before = Sent(request, first());
  const parse::Identity words = PlannedAt(1).prefix;
  EXPECT_NE(PlannedAt(1).notice, parse::Identity());
  request.turns[0] = Turn("user", Noted("fix it", "act"));
  request.turns.push_back(Turn("assistant", "I did."));
  request.turns.push_back(Turn("user", "more"));
  json now = Sent(request, first());
  ASSERT_EQ(now.size(), 2U) << now;
  EXPECT_EQ(now[0]["text"], "fix it");
  EXPECT_NE(now[1]["text"], before[1]["text"]) << "what its caller took back is not sent";
  EXPECT_EQ(PlannedAt(1).prefix, words);
  request.turns[0] = Turn("user", "fix it");
  request.turns.push_back(Turn("assistant", "I did."));
  request.turns.push_back(Turn("user", Noted("more", "act")));
  now = Sent(request, first());
  ASSERT_EQ(now.size(), 1U) << now;
  EXPECT_EQ(now[0]["text"], "fix it");
  EXPECT_EQ(PlannedAt(1).prefix, words);
  EXPECT_EQ(PlannedAt(1).notice, parse::Identity());
  // Other words are another text.
  request.turns[0] = Turn("user", "fix that");
  EXPECT_EQ(Sent(request, first()), "fix that");
}

TEST_P(ListForms, TheStringIsFoundAgainInItsList) {
  for (const std::string& text : {Noted("fix it", "plan"), std::string("fix \"it\"}]"),
                                  std::string("say {\"type\":\"text\"}")}) {
    const std::string body = Start(text).Body();
    parse::SegmentMemo memo(16);
    const Result<parse::RequestLayout> layout = parse::ReadRequestLayout(GetParam(), body, memo);
    ASSERT_TRUE(layout.has_value());
    const Draft draft = MakeDraft(body, *layout, nullptr, 0);
    const DraftSegment& segment = draft.segments.back();
    ASSERT_TRUE(IsString(*segment.now));
    const ListForm list = ListFormOf(draft, segment);
    const std::string_view own = segment.now->span.In(body);
    EXPECT_EQ(StringFormOf(GetParam(), list.bytes, list.breakpoint_at), own);
    EXPECT_EQ(parse::ApplyEdits(body, list.edits, segment.now->span), list.bytes);
    const parse::Span found = parse::TextIn(own, parse::Content::kText);
    const PlannedString planned = PlannedStringOf(own, found, parse::NoticeIn(own, found));
    EXPECT_EQ(planned.has_notice, text == Noted("fix it", "plan"));
  }
}

// Tags that stay where they are hold up no breakpoint behind them.
TEST(ListFormPlans, NoticesThatStayAreCachedAsTheirWords) {
  Optimizer optimizer(Optimizer::Options{});
  Request request{.system = "Rules. " + std::string(20'000, 'x'), .model = "claude-opus-5"};
  json last;
  for (int turn = 0; turn < 90; ++turn) {
    if (turn > 0) request.turns.push_back(Turn("assistant", "I did what you said, all of it."));
    request.turns.push_back(Turn("user", Noted("step " + std::to_string(turn), "plan")));
    const std::string body = request.Body();
    OptimizeArgs args;
    args.body = body;
    args.endpoint = Endpoint::kMessages;
    args.tenant = "tenant";
    args.session = "one";
    args.upstream = "main";
    args.provider = "anthropic";
    args.mode = Mode::kStabilize;
    args.now_us = (turn + 1) * int64_t{10'000'000};
    const Prepared prepared = optimizer.Prepare(args);
    ledger::reply::TokenUsage usage;
    usage.cache_read_tokens = turn > 0 ? 6000 : 0;
    usage.cache_write_tokens = 100;
    optimizer.Finish(prepared, {.usage = usage, .provider_reason = {}, .now_us = args.now_us + 1});
    last = json::parse(prepared.body.value_or(body))["messages"];
  }
  const auto is_marked = [](const json& turn) {
    return turn["content"].dump().find("cache_control") != std::string::npos;
  };
  EXPECT_TRUE(std::any_of(last.end() - 3, last.end(), is_marked)) << last.back();
}

INSTANTIATE_TEST_SUITE_P(Dialects, ListForms,
                         ::testing::Values(Endpoint::kMessages, Endpoint::kChatCompletions,
                                           Endpoint::kResponses),
                         test::DialectOf);

}  // namespace
}  // namespace kvgate::prompt::rewrite
