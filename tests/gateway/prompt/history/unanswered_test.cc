#include "gateway/prompt/history/unanswered.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "gateway/prompt/parse/segment_memo.h"

namespace kvgate::prompt::history {
namespace {

using dialect::form::Endpoint;

// A request of a client that has no name for its conversation.
struct Asked {
  std::string body;
  parse::RequestLayout layout;

  Asked(const std::string& system, const std::string& words, const std::string& more = "") {
    const std::string first = R"({"role":"system","content":")" + system + R"("},)";
    body = R"({"model":"m","messages":[)" + (system.empty() ? "" : first) +
           R"({"role":"user","content":")" + words + "\"}" + more + "]}";
    parse::SegmentMemo memo(16);
    auto read = parse::ReadRequestLayout(Endpoint::kChatCompletions, body, memo);
    EXPECT_TRUE(read.has_value());
    layout = std::move(*read);
  }
};

const std::string kAnswer =
    R"(,{"role":"assistant","content":"Done."},{"role":"user","content":"go on"})";

std::string SystemText(const std::string& state) {
  return "Be brief.\\nName files.\\nRead logs.\\nMend tests.\\n" + state;
}

std::shared_ptr<Branch> BranchOf(const Asked& asked, uint64_t origin) {
  auto branch = std::make_shared<Branch>();
  branch->origin = branch->token = origin;
  branch->first_turn = std::make_shared<const FirstTurn>(ReadFirstTurn(asked.body, asked.layout));
  for (const parse::Segment& segment : asked.layout.segments) {
    SentSegment sent;
    sent.place = segment.place;
    sent.role = segment.role;
    sent.content = segment.content;
    sent.same = segment.same;
    sent.stable = segment.stable;
    sent.sent_raw = segment.raw;
    sent.bytes = std::make_shared<const std::string>(segment.span.In(asked.body));
    branch->request.segments.push_back(std::move(sent));
    branch->forms.push_back(CallerForm());
  }
  return branch;
}

std::shared_ptr<const Branch> Similar(std::vector<std::shared_ptr<const Branch>> branches,
                                      const Asked& now) {
  const FirstTurn turn = ReadFirstTurn(now.body, now.layout);
  return ChooseSimilar(branches, {.body = now.body, .layout = now.layout, .first_turn = &turn});
}

TEST(Unanswered, TheOnlySimilarBeginningIsGoneOnFrom) {
  const auto branch = BranchOf(Asked(SystemText("idle"), "mend it"), 1);
  const auto other = BranchOf(Asked(SystemText("idle"), "write it"), 2);
  const Asked now(SystemText("waiting for ci"), "mend it", kAnswer);
  EXPECT_EQ(Similar({other, branch}, now), branch);
  EXPECT_EQ(Similar({other}, now), nullptr) << "its user says something else";
  const auto twin = BranchOf(Asked(SystemText("indexing"), "mend it"), 3);
  EXPECT_EQ(Similar({twin, branch}, now), nullptr) << "it may be either";
}

TEST(Unanswered, ASystemPromptThatSaysMostlySomethingElseIsAnotherAgents) {
  const auto branch = BranchOf(Asked("Write poems.\\nRhyme.\\nBe brief.", "mend it"), 1);
  EXPECT_EQ(Similar({branch}, Asked(SystemText("idle"), "mend it", kAnswer)), nullptr);
  const auto silent = BranchOf(Asked("", "mend it"), 1);
  EXPECT_EQ(Similar({silent}, Asked("", "mend it", kAnswer)), nullptr);
}

TEST(Unanswered, OnlyARequestThatBringsTheFirstAnswerGoesOn) {
  const auto branch = BranchOf(Asked(SystemText("idle"), "mend it"), 1);
  EXPECT_EQ(Similar({branch}, Asked(SystemText("idle"), "mend it")), nullptr);
  EXPECT_EQ(Similar({branch}, Asked(SystemText("idle"), "mend it", kAnswer + kAnswer)), nullptr);
}

TEST(Unanswered, AFirstRequestThatAnotherHasGoneOnFromIsNoBeginningAnyMore) {
  const auto branch = BranchOf(Asked(SystemText("idle"), "mend it"), 1);
  const auto helper = std::make_shared<Branch>(*branch);
  helper->token = 2;
  helper->first_turn = nullptr;
  EXPECT_TRUE(IsGoneOnFrom(*branch, std::vector<std::shared_ptr<const Branch>>{helper, branch}));
  EXPECT_FALSE(IsGoneOnFrom(*branch, std::vector<std::shared_ptr<const Branch>>{branch}));
  const Asked now(SystemText("waiting for ci"), "mend it", kAnswer);
  EXPECT_EQ(Similar({helper, branch}, now), nullptr);
}

}  // namespace
}  // namespace kvgate::prompt::history
