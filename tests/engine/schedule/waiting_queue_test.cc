#include "engine/schedule/waiting_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace kvgate::schedule {
namespace {

class WaitingQueueTest : public testing::Test {
 protected:
  uint64_t Add(const std::string& salt, int num_tokens, bool is_long = false) {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = RequestId{next_id_};
    sequence->salt = salt;
    sequence->tokens.resize(static_cast<size_t>(num_tokens));
    sequence->num_prompt_tokens = num_tokens;
    sequence->is_long = is_long;
    line_.Add(std::move(sequence));
    return next_id_++;
  }
  std::vector<uint64_t> Order(size_t count = 100) {
    std::vector<uint64_t> ids;
    for (const Sequence* sequence : line_.Candidates(count, skip_, cached_)) {
      ids.push_back(sequence->id.value);
    }
    return ids;
  }
  // Runs the next request to its end and charges its tenant.
  uint64_t RunNext() {
    const std::vector<Sequence*> next = line_.Candidates(1, skip_, cached_);
    const auto taken = line_.Take(*next.front());
    line_.Charge(taken->tenant, taken->num_tokens());
    line_.OnEnded(*taken);
    return taken->id.value;
  }

  WaitingQueue line_;
  uint64_t next_id_ = 1;
  std::function<bool(const Sequence&)> skip_ = [](const Sequence&) { return false; };
  std::function<int(const Sequence&)> cached_ = [](const Sequence&) { return 0; };
};

TEST_F(WaitingQueueTest, OneTenantIsServedInOrderOfArrival) {
  for (int i = 0; i < 5; ++i) Add("a", 100);
  EXPECT_EQ(Order(), (std::vector<uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(Order(2), (std::vector<uint64_t>{1, 2}));
}

TEST_F(WaitingQueueTest, ATenantWithManyDoesNotHoldUpOneWithFew) {
  for (int i = 0; i < 10; ++i) Add("busy", 100);
  const uint64_t quiet = Add("quiet", 100);
  const std::vector<uint64_t> order = Order();
  EXPECT_LE(std::ranges::find(order, quiet) - order.begin(), 1);
}

TEST_F(WaitingQueueTest, ServiceIsCountedInTokens) {
  for (int i = 0; i < 40; ++i) Add("large", 400);
  for (int i = 0; i < 40; ++i) Add("small", 100);
  int num_large = 0;
  for (int i = 0; i < 25; ++i) num_large += RunNext() <= 40;
  EXPECT_NEAR(num_large, 5, 1);  // one of 400 tokens for every four of 100
}

TEST_F(WaitingQueueTest, WhoComesBackBringsNoCreditAlong) {
  Add("a", 100);
  RunNext();
  for (int i = 0; i < 20; ++i) Add("b", 100);
  for (int i = 0; i < 10; ++i) RunNext();
  for (int i = 0; i < 20; ++i) Add("a", 100);
  int num_a = 0;
  for (int i = 0; i < 8; ++i) num_a += RunNext() > 21;
  EXPECT_NEAR(num_a, 4, 1);
}

TEST_F(WaitingQueueTest, ShortPromptsGoFirstAndLongOnesEveryFourthTurn) {
  std::set<uint64_t> long_ones;
  for (int i = 0; i < 2; ++i) long_ones.insert(Add("a", 5000, true));
  for (int i = 0; i < 8; ++i) Add("a", 10);
  std::vector<bool> is_long;
  for (int i = 0; i < 10; ++i) is_long.push_back(long_ones.contains(RunNext()));
  EXPECT_EQ(is_long, (std::vector<bool>{false, false, false, true, false, false, false, true, false,
                                        false}));
}

TEST_F(WaitingQueueTest, OfTheFirstFewTheBestCachedGoesFirstButNobodyIsPassedForEver) {
  const uint64_t cold = Add("a", 100);
  std::set<uint64_t> warm;
  for (int i = 0; i < 20; ++i) warm.insert(Add("a", 100));
  cached_ = [&](const Sequence& sequence) { return warm.contains(sequence.id.value) ? 96 : 0; };
  int num_before = 0;
  while (RunNext() != cold) ++num_before;
  EXPECT_EQ(num_before, 4);
}

TEST_F(WaitingQueueTest, APreemptedSequenceGoesAheadOfItsTenantsOthers) {
  for (int i = 0; i < 3; ++i) Add("a", 100);
  auto taken = line_.Take(*line_.Find(RequestId{2}));
  taken->num_preemptions = 1;
  SequenceList running;
  running.push_back(std::move(taken));
  line_.AddPreempted(running, running.begin());
  EXPECT_EQ(Order().front(), 2u);
}

TEST_F(WaitingQueueTest, WhoMustBeSkippedStaysAndKeepsItsPlace) {
  for (int i = 0; i < 3; ++i) Add("a", 100);
  skip_ = [](const Sequence& sequence) { return sequence.id.value == 1; };
  EXPECT_EQ(Order(), (std::vector<uint64_t>{2, 3}));
  skip_ = [](const Sequence&) { return false; };
  EXPECT_EQ(Order().front(), 1u);
}

TEST_F(WaitingQueueTest, TenantsThatAreGoneAreForgotten) {
  for (int i = 0; i < 5000; ++i) {
    Add("tenant" + std::to_string(i), 10);
    RunNext();
  }
  EXPECT_LE(line_.num_tenants(), 1024u);
}

// Every request is served exactly once, whatever else happens.
TEST_F(WaitingQueueTest, LosesAndInventsNobodyOverRandomOperations) {
  std::mt19937 random(7);
  std::map<uint64_t, bool> waiting;
  std::vector<std::unique_ptr<Sequence>> running;
  for (int operation = 0; operation < 100000; ++operation) {
    if (random() % 2 == 0 && waiting.size() < 40) {
      waiting[Add("t" + std::to_string(random() % 4), 1 + random() % 100, random() % 3 == 0)];
    } else if (!line_.empty()) {
      const std::vector<Sequence*> next = line_.Candidates(1 + random() % 5, skip_, cached_);
      ASSERT_FALSE(next.empty());
      running.push_back(line_.Take(*next[random() % next.size()]));
      ASSERT_EQ(waiting.erase(running.back()->id.value), 1u);
    }
    if (running.size() > 8) {
      std::unique_ptr<Sequence> one = std::move(running[random() % running.size()]);
      std::erase(running, nullptr);
      line_.Charge(one->tenant, one->num_tokens());
      if (random() % 3 == 0) {
        ++one->num_preemptions;
        waiting[one->id.value];
        SequenceList preempted;
        preempted.push_back(std::move(one));
        line_.AddPreempted(preempted, preempted.begin());
      } else {
        line_.OnEnded(*one);
      }
    }
    ASSERT_EQ(line_.size(), waiting.size());
  }
}

}  // namespace
}  // namespace kvgate::schedule
