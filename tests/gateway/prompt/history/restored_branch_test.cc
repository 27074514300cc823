#include "gateway/prompt/history/restored_branch.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "gateway/prompt/parse/canonical.h"
#include "gateway/prompt/parse/segment_memo.h"
#include "tests/gateway/prompt/conversations.h"
#include "tests/gateway/prompt/sent_request.h"

namespace kvgate::prompt::history {
namespace {

using dialect::form::Endpoint;
using test::Request;
using test::Turn;

parse::RequestLayout LayoutOf(const std::string& body) {
  parse::SegmentMemo memo(64);
  auto layout = parse::ReadRequestLayout(Endpoint::kMessages, body, memo);
  EXPECT_TRUE(layout);
  return std::move(*layout);
}

Branch BranchOf(const std::string& body) {
  Branch branch;
  branch.request = SentAs(Endpoint::kMessages, body);
  for (const SentSegment& segment : branch.request.segments) {
    CallerForm form;
    form.raw = segment.sent_raw;
    branch.forms.push_back(form);
  }
  return branch;
}

// As it comes from a disk: bytes that went out as received are missing.
Branch Restored(const Branch& branch) {
  Branch restored = branch;
  restored.is_restored = true;
  restored.request.segments = {};
  for (SentSegment segment : branch.request.segments) {
    segment.bytes = nullptr;
    restored.request.segments.push_back(segment);
  }
  return restored;
}

std::string BodyOf(const std::vector<std::string>& turns) {
  return Request{.system = "s", .turns = turns}.Body();
}

TEST(RestoredBranchTest, BytesAreFoundInTheNextRequestWhereverTheyStand) {
  const Branch sent = BranchOf(BodyOf({Turn("user", "one"), Turn("user", "two")}));
  const std::string next =
      BodyOf({Turn("user", "new"), Turn("user", "two"), Turn("user", "one, edited")});
  const auto filled = FillFrom(Restored(sent), next, LayoutOf(next));
  EXPECT_FALSE(filled->is_restored);
  ASSERT_EQ(filled->request.segments.size(), 3U);
  EXPECT_EQ(*filled->request.segments[0].bytes, *sent.request.segments[0].bytes);
  EXPECT_EQ(filled->request.segments[1].bytes, nullptr) << "the client says it no longer";
  EXPECT_EQ(*filled->request.segments[2].bytes, *sent.request.segments[2].bytes);
}

TEST(RestoredBranchTest, ARequestWithTwoNewAnswersDoesNotFollow) {
  const Branch sent = BranchOf(BodyOf({Turn("user", "one")}));
  const auto follows = [&](const std::vector<std::string>& turns) {
    return Follows(sent, LayoutOf(BodyOf(turns)));
  };
  const std::string user = Turn("user", "u");
  const std::string answer = Turn("assistant", "a");
  EXPECT_TRUE(follows({user}));
  EXPECT_TRUE(follows({user, answer, user}));
  EXPECT_TRUE(follows({user, answer, answer, user, user})) << "an answer of several items";
  EXPECT_FALSE(follows({user, answer, user, answer, user}));
}

TEST(RestoredBranchTest, AnAnswerPutsAConversationUnderWayAndAnExampleDoesNot) {
  EXPECT_FALSE(IsUnderWay(LayoutOf(BodyOf({Turn("user", "u")}))));
  EXPECT_TRUE(IsUnderWay(LayoutOf(BodyOf({Turn("user", "u"), Turn("assistant", "a")}))));
  parse::SegmentMemo memo(64);
  const std::string examples = R"({"model":"m","messages":[{"role":"user","content":"u"},)"
                               R"({"role":"assistant","name":"example_assistant","content":"a"},)"
                               R"({"role":"user","content":"v"}]})";
  const auto layout = parse::ReadRequestLayout(Endpoint::kChatCompletions, examples, memo);
  ASSERT_TRUE(layout);
  EXPECT_FALSE(IsUnderWay(*layout));
}

// A turn that the gateway has added is none of its client's.
TEST(RestoredBranchTest, ATurnOfTheGatewaysOwnIsItsToKeep) {
  const auto turns = [](const char* last) {
    return BodyOf({Turn("user", "one"), Turn("system", "It is 10:31."), Turn("assistant", last)});
  };
  const auto with_own = [&](const char* last) {
    Branch branch = BranchOf(turns(last));
    SentSegments segments;
    parse::SharedList<CallerForm> forms;
    for (size_t i = 0; i < branch.request.segments.size(); ++i) {
      SentSegment segment = branch.request.segments[i];
      CallerForm form = branch.forms[i];
      if (segment.role == parse::Role::kSystem &&
          segment.place.section == parse::Section::kMessages) {
        segment.is_ours = true;
        form.raw = {};
      }
      segments.push_back(segment);
      forms.push_back(form);
    }
    branch.request.segments = segments;
    branch.forms = forms;
    return branch;
  };
  const Branch before = with_own("two");
  EXPECT_EQ(RewriteOf(before, with_own("two")), Rewrite::kNone);
  EXPECT_EQ(RewriteOf(before, with_own("edited")), Rewrite::kClient);
  const Branch without = BranchOf(BodyOf({Turn("user", "one"), Turn("assistant", "two")}));
  EXPECT_EQ(RewriteOf(before, without), Rewrite::kGateway);
  const Branch deleted = BranchOf(BodyOf({Turn("user", "one")}));
  EXPECT_EQ(RewriteOf(before, deleted), Rewrite::kClient);
}

TEST(RestoredBranchTest, ARewriteIsTheClientsUnlessItOnlyAdded) {
  const Branch before = BranchOf(BodyOf({Turn("user", "one"), Turn("assistant", "two")}));
  const Branch more =
      BranchOf(BodyOf({Turn("user", "one"), Turn("assistant", "two"), Turn("user", "three")}));
  EXPECT_EQ(RewriteOf(before, more), Rewrite::kNone);
  EXPECT_EQ(RewriteOf(before, before), Rewrite::kNone);
  EXPECT_EQ(RewriteOf(more, before), Rewrite::kClient) << "a deletion";
  const Branch edited = BranchOf(BodyOf({Turn("user", "One"), Turn("assistant", "two")}));
  EXPECT_EQ(RewriteOf(before, edited), Rewrite::kClient);
  // The client wrote the same, and other bytes went out.
  Branch ours = edited;
  ours.forms = before.forms;
  EXPECT_EQ(RewriteOf(before, ours), Rewrite::kGateway);
  // The client's edit is held back.
  Branch held = before;
  held.forms = edited.forms;
  EXPECT_EQ(RewriteOf(before, held), Rewrite::kNone);
}

TEST(RestoredBranchTest, WhatWentOnElsewhereHasAllOfWhatItWentOnFrom) {
  const auto sent = [](uint64_t token, const std::vector<uint64_t>& texts) {
    auto branch = std::make_shared<Branch>();
    branch->token = token;
    for (const uint64_t text : texts) {
      SentSegment segment;
      segment.place.section = parse::Section::kMessages;
      segment.sent_raw = {text, text};
      branch->request.segments.push_back(std::move(segment));
    }
    return branch;
  };
  const auto now = sent(1, {1, 2, 3});
  const std::vector<std::shared_ptr<const Branch>> others = {
      sent(2, {1}), sent(3, {1, 2}), sent(4, {1, 3}), sent(5, {1, 2, 3, 4}), now};
  EXPECT_TRUE(TokensWithin(now.get(), others).empty()) << "it was sent here";
  now->is_restored = true;
  EXPECT_EQ(TokensWithin(now.get(), others), (std::vector<uint64_t>{3, 2}));
  EXPECT_TRUE(TokensWithin(nullptr, others).empty());
}

}  // namespace
}  // namespace kvgate::prompt::history
