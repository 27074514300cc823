#include "gateway/service/branches/kept_branches.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gateway/prompt/parse/canonical.h"
#include "tests/store/memory_meta_store.h"
#include "tests/store/shared/memory_client.h"

namespace kvgate::service::branches {
namespace {

using prompt::history::Branch;
using prompt::history::CallerForm;
using prompt::history::SentSegment;
using prompt::parse::Identity;

constexpr Identity kOne{.low = 1, .high = 1};

struct Gateway {
  Gateway(store::shared::MemoryServer& server, const Keyring& ring)
      : client(server), rows({}, client, ring) {}

  void Keep(const prompt::Prepared& prepared) {
    if (const auto write = kept.Keep("t", prepared)) {
      here.Commit(*write);
      here.GoOut(*write);
    }
    shared.Flush();
  }
  KeptBranches::Asked Asked(std::span<const uint64_t> known = {}) const {
    return {.tenant = "t", .keys = {&kOne, 1}, .known = known};
  }
  size_t NumRecalled(std::span<const uint64_t> known = {}) const {
    size_t count = 0;
    kept.Recall(Asked(known), [&](const Recalled& found) { count += found.branches.size(); });
    return count;
  }

  store::MemoryMetaStore meta;
  store::shared::MemoryClient client;
  store::shared::SharedRows rows;
  BranchStore here{{.meta = meta, .interval = std::chrono::hours(1)}};
  SharedBranches shared{{.here = here, .shared = rows}};
  KeptBranches kept{&here, &shared};
};

prompt::Prepared Sent(uint64_t token, const std::string& text) {
  auto branch = std::make_shared<Branch>();
  branch->token = token;
  branch->request.time_us = static_cast<int64_t>(token);
  branch->mode = prompt::Mode::kPin;
  SentSegment sent;
  sent.place = {.section = prompt::parse::Section::kMessages, .field = "messages"};
  sent.sent_raw = prompt::parse::HashBytes(text, prompt::parse::Domain::kRaw);
  sent.bytes = std::make_shared<const std::string>(text);
  branch->request.segments.push_back(std::move(sent));
  branch->forms.push_back(CallerForm());
  prompt::Prepared prepared;
  prepared.branch = std::move(branch);
  prepared.keys = {kOne};
  return prepared;
}

class KeptBranchesTest : public testing::Test {
 protected:
  store::shared::MemoryServer server_;
  const std::unique_ptr<Keyring> ring_ = Keyring::Generate();
  Gateway a_{server_, *ring_};
  Gateway b_{server_, *ring_};
};

TEST_F(KeptBranchesTest, WhatIsKeptHereIsToldToOthers) {
  a_.Keep(Sent(1, "a"));
  b_.Keep(Sent(2, "b"));
  EXPECT_EQ(a_.here.stats().num_branches, 1U);
  EXPECT_EQ(a_.NumRecalled(), 2U) << "its own once, from the disk, and the other's";
  EXPECT_EQ(b_.NumRecalled(std::vector<uint64_t>{1}), 1U) << "one is known in memory";
  const auto peeked = b_.kept.Peek(b_.Asked());
  ASSERT_EQ(peeked.size(), 2U);
  EXPECT_EQ(peeked[0]->token, 2U) << "the newest first";
}

TEST_F(KeptBranchesTest, ALoneQuestionIsToldAndNotKept) {
  prompt::Prepared lone = Sent(1, "a");
  lone.lone = std::exchange(lone.branch, nullptr);
  a_.Keep(lone);
  EXPECT_EQ(a_.here.stats().num_branches, 0U);
  EXPECT_EQ(b_.NumRecalled(), 1U);
  a_.kept.Withdraw("t", lone);
  a_.shared.Flush();
  EXPECT_EQ(b_.NumRecalled(), 0U);
}

TEST_F(KeptBranchesTest, WhatWasNotSentIsNowhere) {
  const prompt::Prepared sent = Sent(1, "a");
  a_.Keep(sent);
  a_.kept.Withdraw("t", sent);
  a_.kept.Withdraw("t", prompt::Prepared());  // of which nothing was kept
  a_.shared.Flush();
  EXPECT_EQ(a_.NumRecalled() + b_.NumRecalled(), 0U);
}

TEST_F(KeptBranchesTest, WithoutAStoreNobodyIsAsked) {
  EXPECT_EQ(KeptBranches(nullptr, nullptr).past(), nullptr);
  EXPECT_FALSE(KeptBranches(nullptr, nullptr).is_kept());
  EXPECT_FALSE(KeptBranches(nullptr, nullptr).Keep("t", Sent(1, "a")));
  const KeptBranches alone(&a_.here, nullptr);
  EXPECT_EQ(alone.past(), &a_.here);
  EXPECT_EQ(a_.kept.past(), &a_.shared);
  ASSERT_TRUE(alone.Keep("t", Sent(2, "b")));
  EXPECT_EQ(b_.NumRecalled(), 0U);
}

}  // namespace
}  // namespace kvgate::service::branches
