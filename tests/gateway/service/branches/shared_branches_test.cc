#include "gateway/service/branches/shared_branches.h"

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gateway/prompt/optimizer.h"
#include "gateway/prompt/parse/canonical.h"
#include "tests/store/memory_meta_store.h"
#include "tests/store/shared/memory_client.h"
#include "tests/wait_until.h"

namespace kvgate::service::branches {
namespace {

using prompt::history::Branch;
using prompt::history::CallerForm;
using prompt::history::Past;
using prompt::history::SentSegment;
using prompt::parse::Identity;

constexpr Identity kOne{.low = 1, .high = 1};
constexpr Identity kTwo{.low = 2, .high = 2};
constexpr Identity kThree{.low = 3, .high = 3};

using Shared = std::shared_ptr<const Branch>;

// A gateway with a disk and a connection of its own.
struct Gateway {
  Gateway(store::shared::MemoryServer& server, const Keyring& ring, size_t queue_max = 1'024)
      : client(server),
        rows({}, client, ring),
        here({.meta = meta, .interval = std::chrono::hours(1)}),
        branches(std::make_unique<SharedBranches>(
            SharedBranches::Options{.here = here, .shared = rows, .queue_max = queue_max})) {}

  void Tell(const Shared& branch, const Shared& before = nullptr,
            std::vector<Identity> keys = {kOne}, std::string_view tenant = "t") {
    branches->Tell({.tenant = tenant, .branch = branch, .before = before, .keys = std::move(keys)});
  }
  // The texts of the newest branch of each conversation.
  std::vector<std::string> Ask(Identity key = kOne, std::vector<uint64_t> known = {},
                               std::string_view tenant = "t") {
    std::vector<std::string> texts;
    for (const Recalled& found :
         branches->Recall({.tenant = tenant, .keys = {&key, 1}, .known = known})) {
      std::string all;
      for (const SentSegment& segment : found.branches.at(0)->request.segments) {
        all += *segment.bytes;
      }
      texts.push_back(std::move(all));
    }
    return texts;
  }
  Past::Standing StandingOf(bool may_ask) const {
    return branches->Find({.keys = {&kOne, 1}, .known = {}, .may_ask = may_ask});
  }
  std::string Metrics() const {
    metrics::Registry registry;
    registry.AddCollector([this](auto& writer) { branches->Collect(writer); });
    return registry.Text();
  }

  store::MemoryMetaStore meta;
  store::shared::MemoryClient client;
  store::shared::SharedRows rows;
  BranchStore here;
  std::unique_ptr<SharedBranches> branches;
};

class SharedBranchesTest : public testing::Test {
 protected:
  // The request after `before`, with one turn more, which went out in other bytes than it came.
  Shared Next(const Shared& before, std::string text) {
    auto branch = before ? std::make_shared<Branch>(*before) : std::make_shared<Branch>();
    branch->token = ++token_;
    branch->request.time_us = static_cast<int64_t>(token_);
    branch->mode = prompt::Mode::kPin;
    SentSegment sent;
    sent.place = {.section = prompt::parse::Section::kMessages, .field = "messages"};
    sent.sent_raw = prompt::parse::HashBytes(text, prompt::parse::Domain::kRaw);
    sent.bytes = std::make_shared<const std::string>(std::move(text));
    branch->request.segments.push_back(std::move(sent));
    branch->forms.push_back(CallerForm());
    return branch;
  }
  // So many requests of a conversation, each told before the next.
  Shared TellMany(int count, Shared last = nullptr) {
    for (int i = 0; i < count; ++i) {
      Shared next = Next(last, std::string(1, static_cast<char>('a' + i % 26)));
      a_.Tell(next, last);
      a_.branches->Flush();
      last = std::move(next);
    }
    return last;
  }

  uint64_t token_ = 0;
  store::shared::MemoryServer server_;
  const std::unique_ptr<Keyring> ring_ = Keyring::Generate();
  Gateway a_{server_, *ring_};
  Gateway b_{server_, *ring_};
};

TEST_F(SharedBranchesTest, AnotherGatewayHearsWhatWasSent) {
  const Shared last = TellMany(3);
  EXPECT_EQ(b_.Ask(), std::vector<std::string>{"abc"});
  EXPECT_EQ(b_.Ask(kTwo), std::vector<std::string>());
  EXPECT_EQ(b_.Ask(kOne, {last->token}), std::vector<std::string>()) << "it is known there";
  EXPECT_EQ(b_.Ask(kOne, {}, "another"), std::vector<std::string>());
  EXPECT_NE(b_.Metrics().find("asked_total{result=\"found\"} 1"), std::string::npos);
  EXPECT_NE(b_.Metrics().find("asked_total{result=\"unknown\"} 3"), std::string::npos);
  EXPECT_NE(a_.Metrics().find("told_total{result=\"ok\"} 3"), std::string::npos);
}

TEST_F(SharedBranchesTest, OnlyWhatIsNewIsSent) {
  const Shared first = Next(nullptr, std::string(100'000, 'x'));
  a_.Tell(first);
  a_.Tell(Next(first, "y"), first);
  a_.branches->Flush();
  ASSERT_EQ(server_.lists.size(), 1U);
  ASSERT_EQ(server_.lists.begin()->second.size(), 2U);
  EXPECT_LT(server_.lists.begin()->second[1].size(), 1'000U);
  EXPECT_EQ(b_.Ask()[0].size(), 100'001U);
  // Another conversation that begins with the same text stands on the same bytes.
  const size_t num_texts = server_.values.size();
  a_.Tell(Next(nullptr, std::string(100'000, 'x')), nullptr, {kTwo});
  a_.branches->Flush();
  EXPECT_EQ(server_.values.size(), num_texts);
  EXPECT_EQ(b_.Ask(kTwo)[0].size(), 100'000U);
}

TEST_F(SharedBranchesTest, ItGoesOnAtTheOtherAndBack) {
  const Shared here = TellMany(2);
  const auto heard = b_.branches->Recall({.tenant = "t", .keys = {&kOne, 1}, .known = {}});
  ASSERT_EQ(heard.size(), 1U);
  const Shared restored = heard[0].branches[0];
  EXPECT_TRUE(restored->is_restored);
  b_.Tell(Next(restored, "z"), restored);
  b_.branches->Flush();
  EXPECT_EQ(a_.Ask(kOne, {here->token}), std::vector<std::string>{"abz"});
  // Each gateway has one line of it, however often it comes and goes.
  const Shared back =
      a_.branches->Recall({.tenant = "t", .keys = {&kOne, 1}, .known = {}}).at(0).branches.at(0);
  a_.branches->Tell({.tenant = "t",
                     .branch = Next(back, "y"),
                     .before = back,
                     .keys = {kOne},
                     .instead = {token_ + 100, here->token}});
  a_.branches->Flush();
  EXPECT_EQ(server_.lists.size(), 2U);
  EXPECT_EQ(b_.Ask(), std::vector<std::string>{"abzy"});
}

TEST_F(SharedBranchesTest, ManyRowsBeginAnewNowAndThen) {
  TellMany(150);
  ASSERT_EQ(server_.lists.size(), 1U);
  EXPECT_LE(server_.lists.begin()->second.size(), 64U);
  EXPECT_EQ(b_.Ask()[0].size(), 150U);
}

TEST_F(SharedBranchesTest, AConversationIsFoundUnderEachOfItsNames) {
  const Shared first = Next(nullptr, "a");
  a_.Tell(first, nullptr, {kOne, kTwo});
  a_.branches->Flush();
  a_.Tell(Next(nullptr, "b"), nullptr, {kOne, kThree});
  a_.branches->Flush();
  const auto recalled = b_.branches->Recall({.tenant = "t", .keys = {&kTwo, 1}, .known = {}});
  ASSERT_EQ(recalled.size(), 1U);
  EXPECT_EQ(recalled[0].branches.size(), 2U) << "all branches of the conversation";
  EXPECT_EQ(recalled[0].keys.front(), kOne);
  EXPECT_EQ(b_.branches->Peek({.tenant = "t", .keys = {&kThree, 1}, .known = {}}).size(), 2U);
}

TEST_F(SharedBranchesTest, WhatTheServerForgetsIsToldWhole) {
  const Shared last = TellMany(3);
  server_.Flush();
  EXPECT_EQ(b_.Ask(), std::vector<std::string>());
  TellMany(1, last);
  EXPECT_EQ(b_.Ask(), std::vector<std::string>{"abca"});
  // Of the texts alone.
  const Shared more = Next(nullptr, "other");
  a_.Tell(more, nullptr, {kTwo});
  a_.branches->Flush();
  server_.values.clear();
  EXPECT_EQ(b_.Ask(kTwo), std::vector<std::string>());
  a_.Tell(Next(nullptr, "other"), nullptr, {kTwo});
  a_.branches->Flush();
  EXPECT_EQ(b_.Ask(kTwo), std::vector<std::string>{"other"});
}

TEST_F(SharedBranchesTest, WhatCouldNotBeToldIsToldWithTheNextRequest) {
  Shared last = TellMany(2);
  a_.client.is_down = true;
  last = TellMany(2, last);
  EXPECT_EQ(b_.Ask(), std::vector<std::string>{"ab"});
  EXPECT_NE(a_.Metrics().find("told_total{result=\"failed\"} 2"), std::string::npos);
  a_.client.is_down = false;
  TellMany(1, last);
  EXPECT_EQ(b_.Ask(), std::vector<std::string>{"ababa"});
}

TEST_F(SharedBranchesTest, ALostAnswerOfTheServerLosesNothing) {
  Shared last = TellMany(2);
  a_.client.loses_answers = true;
  last = TellMany(1, last);
  a_.client.loses_answers = false;
  TellMany(1, last);
  EXPECT_EQ(b_.Ask(), std::vector<std::string>{"abaa"});
  a_.client.repeats = true;
  TellMany(3);
  a_.client.repeats = false;
  EXPECT_EQ(b_.Ask().size(), 1U);
}

TEST_F(SharedBranchesTest, WhatTheServerRefusesIsCountedAndToldOnceItDoesNot) {
  a_.client.refused = "RPUSH";
  const Shared last = TellMany(2);
  EXPECT_EQ(b_.Ask(), std::vector<std::string>());
  EXPECT_NE(a_.Metrics().find("told_total{result=\"failed\"} 2"), std::string::npos);
  a_.client.refused.clear();
  TellMany(1, last);
  EXPECT_EQ(b_.Ask(), std::vector<std::string>{"aba"});
}

TEST_F(SharedBranchesTest, AServerThatIsAwayIsNotAsked) {
  EXPECT_EQ(b_.StandingOf(false), Past::Standing::kUnknown);
  EXPECT_EQ(b_.StandingOf(true), Past::Standing::kKept) << "another gateway may know more";
  b_.client.is_down = true;
  EXPECT_EQ(b_.StandingOf(true), Past::Standing::kUnknown);
  EXPECT_EQ(b_.Ask(), std::vector<std::string>());
  EXPECT_EQ(b_.client.num_begun, 0);
  b_.client.is_down = false;
  b_.client.loses_answers = true;
  EXPECT_EQ(b_.Ask(), std::vector<std::string>());
  EXPECT_NE(b_.Metrics().find("asked_total{result=\"failed\"} 1"), std::string::npos);
}

TEST_F(SharedBranchesTest, WhatWasNotSentIsWithdrawn) {
  const Shared first = Next(nullptr, "a");
  a_.Tell(first);
  a_.branches->Flush();
  a_.branches->Withdraw("t", first->token, 0);
  a_.branches->Flush();
  EXPECT_EQ(b_.Ask(), std::vector<std::string>());
  EXPECT_EQ(server_.lists.size(), 0U);
  // One that goes on from the request before.
  const Shared two = TellMany(2);
  const Shared three = Next(two, "x");
  a_.Tell(three, two);
  a_.branches->Flush();
  a_.branches->Withdraw("t", three->token, two->token);
  a_.Tell(Next(two, "y"), two);
  a_.branches->Flush();
  EXPECT_EQ(b_.Ask(), std::vector<std::string>{"aby"});
  EXPECT_EQ(server_.lists.size(), 1U);
}

TEST_F(SharedBranchesTest, WhatWaitsCanBeWithdrawn) {
  const Shared first = Next(nullptr, "a");
  const Shared second = Next(nullptr, "b");
  std::unique_lock lock(server_.mutex);  // the thread waits with the first
  a_.Tell(first);
  ASSERT_TRUE(test::WaitUntil([this] { return a_.client.num_begun > 0; }, "it is being told"));
  a_.Tell(second, nullptr, {kTwo});
  a_.branches->Withdraw("t", second->token, 0);
  lock.unlock();
  a_.branches->Flush();
  EXPECT_EQ(b_.Ask(), std::vector<std::string>{"a"});
  EXPECT_EQ(b_.Ask(kTwo), std::vector<std::string>());
}

TEST_F(SharedBranchesTest, WhoTellsMostLosesTheirOldest) {
  Gateway gateway(server_, *ring_, 4);
  std::unique_lock lock(server_.mutex);
  gateway.Tell(Next(nullptr, "first"), nullptr, {kThree});
  for (int i = 0; i < 10; ++i) {
    gateway.Tell(Next(nullptr, std::to_string(i)), nullptr, {kOne}, "busy");
    if (i == 0) gateway.Tell(Next(nullptr, "quiet"), nullptr, {kTwo}, "quiet");
  }
  lock.unlock();
  gateway.branches->Flush();
  EXPECT_EQ(b_.Ask(kTwo, {}, "quiet"), std::vector<std::string>{"quiet"});
  EXPECT_EQ(b_.Ask(kOne, {}, "busy"), std::vector<std::string>{"9"}) << "its newest";
}

TEST_F(SharedBranchesTest, WhatWaitsAtTheEndIsTold) {
  {
    Gateway gateway(server_, *ring_);
    gateway.Tell(Next(nullptr, "last"));
  }
  EXPECT_EQ(b_.Ask(), std::vector<std::string>{"last"});
}

TEST_F(SharedBranchesTest, DamageIsLeftOut) {
  TellMany(2);
  for (auto& [key, list] : server_.lists) list[1].back() = static_cast<char>(list[1].back() ^ 1);
  EXPECT_EQ(b_.Ask(), std::vector<std::string>());
}

}  // namespace
}  // namespace kvgate::service::branches
