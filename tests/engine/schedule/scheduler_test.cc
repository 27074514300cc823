#include "engine/schedule/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "engine/schedule/unstored_blocks.h"
#include "kernels/reference/reference_backend.h"
#include "tests/engine/memory_kv_store.h"
#include "tests/engine/schedule/computed_sequences.h"
#include "tests/manual_clock.h"
#include "tests/wait_until.h"

namespace kvgate::schedule {
namespace {

using std::chrono::milliseconds;
using Tokens = std::vector<TokenId>;

// The fixture has a scheduler with a pool and, if asked for, a store; the "model" is a counter.
class SchedulerTest : public testing::Test {
 protected:
  void Make(uint32_t num_blocks, int step_tokens_max = 128, bool with_tier = false) {
    scheduler_.reset();
    groups_ = {};
    backend_ = kernels::reference::MakeReferenceBackend();
    tier::KvGroup::Options group{.window = 0,
                                 .shape = {.num_layers = 1, .num_kv_heads = 1, .head_dim = 2},
                                 .num_blocks = num_blocks,
                                 .host_bytes = {},
                                 .owner_blocks_max = 0};
    if (host_blocks_ > 0) group.host_bytes = host_blocks_ * group.shape.block_bytes();
    groups_ = *tier::KvGroups::Open({&group, 1}, *backend_);
    pool_ = &groups_.full().pool();
    cache_ = &groups_.full().cache();
    if (with_tier) {
      tier_ = std::make_unique<tier::DiskTier>(
          tier::DiskTier::Options{.fingerprint = {},
                                  .groups = {{.arena = &groups_.full().arena(), .shape_tag = 0}},
                                  .on_completion =
                                      [this](tier::Completion done) {
                                        const std::lock_guard lock(mutex_);
                                        completions_.push_back(done);
                                      }},
          store_, *backend_);
    }
    options_.step.tokens_max = step_tokens_max;
    scheduler_ = std::make_unique<Scheduler>(options_, Scheduler::Parts{.hasher = hasher_,
                                                                        .groups = groups_,
                                                                        .disk = tier_.get(),
                                                                        .backend = *backend_,
                                                                        .costs = costs_});
  }
  RequestId Add(Tokens tokens, const std::string& salt = "") {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = RequestId{next_id_++};
    sequence->num_prompt_tokens = static_cast<int>(tokens.size());
    sequence->tokens = std::move(tokens);
    sequence->salt = salt;
    const RequestId id = sequence->id;
    scheduler_->Add(std::move(sequence));
    return id;
  }
  // Runs one turn of an engine: every sequence whose logits were computed gets a next token.
  std::vector<StepItem> Turn() {
    scheduler_->AdmitWaiting();
    std::vector<StepItem> step = scheduler_->PlanStep();
    for (const StepItem& item : step) {
      scheduler_->OnComputed(item);
      if (item.wants_logits) item.sequence->tokens.push_back(7);
    }
    pool_->CheckIntegrity();
    cache_->CheckIntegrity();
    return step;
  }
  bool HasCompletion() {
    const std::lock_guard lock(mutex_);
    return !completions_.empty();
  }
  tier::Completion WaitForCompletion() {
    EXPECT_TRUE(test::WaitUntil([this] { return HasCompletion(); }, "a load or a write completes"));
    const std::lock_guard lock(mutex_);
    const tier::Completion done = completions_.at(0);
    completions_.erase(completions_.begin());
    return done;
  }
  void TearDown() override {
    if (scheduler_ != nullptr) {
      for (const RequestId id : scheduler_->Ids()) scheduler_->Remove(id);
      EXPECT_EQ(pool_->num_used(), 0u);
    }
    tier_.reset();
    scheduler_.reset();
  }
  // Computes a prompt, writes it to the store and releases it.
  void Store(const Tokens& tokens) {
    const RequestId id = Add(tokens);
    Turn();
    Sequence* sequence = scheduler_->Find(id);
    const UnstoredBlocks unstored(groups_, tier_.get(), nullptr);
    std::vector<tier::WriteItem> items = unstored.Take(*sequence);
    auto held = unstored.Hold(*sequence, items);
    ASSERT_TRUE(tier_->Write(99, std::move(items)));
    WaitForCompletion();
    kv::ReleaseLastToFirst(held);
    scheduler_->Remove(id);
    cache_->Clear();
  }

  Scheduler::Options options_{.sequences_max = 8};
  uint32_t host_blocks_ = 0;
  CostModel costs_;
  store::MemoryKvStore store_;
  std::unique_ptr<kernels::Backend> backend_;
  tier::KvGroups groups_;
  kv::BlockPool* pool_ = nullptr;
  kv::PrefixCache* cache_ = nullptr;
  kv::BlockHasher hasher_{{.fingerprint = {}, .seed = 1}};
  std::mutex mutex_;
  std::vector<tier::Completion> completions_;
  std::unique_ptr<tier::DiskTier> tier_;
  std::unique_ptr<Scheduler> scheduler_;
  uint64_t next_id_ = 1;
};

TEST_F(SchedulerTest, ALongPromptIsPrefilledInChunksThatEndOnBlockBoundaries) {
  Make(64, 100);
  const RequestId id = Add(Range(300));
  std::vector<int> chunks;
  for (int turn = 0; turn < 4; ++turn) {
    const auto step = Turn();
    ASSERT_EQ(step.size(), 1u);
    chunks.push_back(step[0].num_tokens);
    EXPECT_EQ(step[0].wants_logits, turn == 3);
  }
  EXPECT_EQ(chunks, (std::vector<int>{96, 96, 96, 12}));
  EXPECT_EQ(scheduler_->Find(id)->num_prefilled_tokens, 300);
}

TEST_F(SchedulerTest, DecodingSequencesComeFirstAndPrefillFillsTheRest) {
  Make(64, 64);
  Add(Range(10));
  Turn();
  Add(Range(200, 1000));
  const auto step = Turn();
  ASSERT_EQ(step.size(), 2u);
  EXPECT_EQ(step[0].num_tokens, 1);
  EXPECT_TRUE(step[0].wants_logits);
  EXPECT_EQ(step[1].num_tokens, 32);  // 63 tokens of the budget are left: one whole block
}

TEST_F(SchedulerTest, ASecondPromptSharesTheBlocksOfTheFirst) {
  Make(64);
  const RequestId first = Add(Range(100));
  Turn();
  scheduler_->Remove(first);
  const RequestId second = Add(Range(100));
  Turn();
  EXPECT_EQ(scheduler_->Find(second)->num_device_tokens, 99);
  EXPECT_EQ(scheduler_->Find(second)->num_prefilled_tokens, 1);
}

// A request that comes second waits until the first has computed their common prefix.
TEST_F(SchedulerTest, EqualColdPromptsAreComputedOnce) {
  Make(64, 64);
  const RequestId first = Add(Range(200));
  std::vector<RequestId> others;
  for (int i = 0; i < 3; ++i) others.push_back(Add(Range(200)));
  int num_computed = 0;
  for (int turn = 0; turn < 8; ++turn) {
    for (const StepItem& item : Turn()) {
      if (!item.sequence->is_decoding() || item.num_tokens > 1) num_computed += item.num_tokens;
    }
  }
  EXPECT_GE(num_computed, 200);
  EXPECT_LE(num_computed, 203) << "of the others only the last token is computed";
  const Sequence* leader = scheduler_->Find(first);
  EXPECT_EQ(leader->num_prefilled_tokens, 200);
  for (const RequestId id : others) {
    const Sequence* sequence = scheduler_->Find(id);
    EXPECT_EQ(sequence->num_prefilled_tokens, 1) << "the unfinished last block is copied, too";
    EXPECT_TRUE(std::equal(sequence->full().block_table.begin(),
                           sequence->full().block_table.begin() + 6,
                           leader->full().block_table.begin()));
  }
  EXPECT_EQ(scheduler_->num_single_flight(), 3u);
}

TEST_F(SchedulerTest, AFollowerIsNotLeftWaitingWhenItsLeaderIsCancelled) {
  Make(64, 64);
  const RequestId first = Add(Range(200));
  Turn();
  const RequestId second = Add(Range(200));
  Turn();
  EXPECT_EQ(scheduler_->Find(second)->state, SequenceState::kWaiting);
  scheduler_->Remove(first);
  Turn();
  EXPECT_EQ(scheduler_->Find(second)->state, SequenceState::kRunning);
  EXPECT_GE(scheduler_->Find(second)->num_device_tokens, 64);
}

TEST_F(SchedulerTest, TenantsDoNotWaitForEachOthersPrefixes) {
  Make(64, 64);
  Add(Range(200), "a");
  const RequestId other = Add(Range(200), "b");
  Turn();
  EXPECT_EQ(scheduler_->Find(other)->state, SequenceState::kRunning);
  EXPECT_EQ(scheduler_->Find(other)->num_device_tokens, 0);
  EXPECT_EQ(scheduler_->num_single_flight(), 0u);
}

TEST_F(SchedulerTest, AShortPromptBehindALongOneHasItsTokenAfterTheNextStep) {
  options_.step.short_prompt_tokens = 100;
  Make(1024, 512);
  Add(Range(20000));
  Turn();
  const RequestId shorty = Add(Range(90, 50000));
  const std::vector<StepItem> step = Turn();
  ASSERT_EQ(step.size(), 2u);
  EXPECT_EQ(step[0].sequence->id, shorty);
  EXPECT_TRUE(step[0].wants_logits);
  EXPECT_EQ(step[1].num_tokens, 160) << "the long one goes on, in a smaller step";
}

TEST_F(SchedulerTest, AFloodOfShortPromptsLeavesALongOneAQuarter) {
  options_.step.short_prompt_tokens = 100;
  Make(2048, 256);
  const RequestId long_one = Add(Range(4000));
  int num_turns = 0;
  while (scheduler_->Find(long_one)->num_prefilled_tokens < 4000) {
    ASSERT_LT(++num_turns, 4000 / 64 + 4);
    for (int i = 0; i < 7; ++i) Add(Range(60, 10000 + 100 * (num_turns * 7 + i)));
    for (const StepItem& item : Turn()) {
      if (item.sequence->id != long_one && item.wants_logits) scheduler_->Remove(item.sequence->id);
    }
  }
}

TEST_F(SchedulerTest, PrefillTakesLessOfAStepInWhichOthersDecode) {
  options_.step.mixed_tokens_max = 96;
  Make(256, 512);
  Add(Range(10));
  Turn();
  Add(Range(2000, 100));
  const auto step = Turn();
  ASSERT_EQ(step.size(), 2u);
  EXPECT_EQ(step[1].num_tokens, 64);  // 95 tokens are left: two blocks
}

TEST_F(SchedulerTest, AStepTakesNoLongerThanItMay) {
  costs_.ObserveStep(512, 0, 512 * 1e-3);
  // At position 3000 a token costs four times as much, and the cost grows linearly up to there.
  costs_.ObserveStep(512, 3000, 512 * 4e-3);
  options_.step.seconds_max = 0.4;
  Make(256, 512);
  Add(Range(7000));
  std::vector<int> chunks;
  for (int turn = 0; turn < 20; ++turn) chunks.push_back(Turn().front().num_tokens);
  EXPECT_EQ(chunks.front(), 320);
  EXPECT_EQ(chunks.back(), 96);
  // With a second request, a step gets a quarter of the time, and that request's ten tokens use a
  // part of it.
  Add(Range(10, 9000));
  const auto step = Turn();
  ASSERT_EQ(step.size(), 1u);  // too little time is left for a block of the long one
  EXPECT_EQ(Turn().back().num_tokens, 32) << "beside a decode it goes on by a block in any case";
}

TEST_F(SchedulerTest, ATenantHoldsNoMoreThanItsShareWhileItHasOthersRunning) {
  options_.tenant_kv_share = 0.5;
  Make(16, 512);
  std::vector<RequestId> greedy;
  for (int i = 0; i < 4; ++i) greedy.push_back(Add(Range(120, 1000 * i), "greedy"));
  const RequestId other = Add(Range(120, 9000), "other");
  Turn();
  int num_running = 0;
  for (const RequestId id : greedy) {
    num_running += scheduler_->Find(id)->state == SequenceState::kRunning;
  }
  EXPECT_EQ(num_running, 2);  // four blocks each, and its share is eight
  EXPECT_EQ(scheduler_->Find(other)->state, SequenceState::kRunning);
}

TEST_F(SchedulerTest, ALargePromptWithoutRoomIsPassedAFewTimesAndThenWaitedFor) {
  options_.sequences_max = 4;
  Make(20, 512);
  const RequestId small_one = Add(Range(300));
  Turn();
  const RequestId large = Add(Range(500, 5000));
  int num_passed = 0;
  for (int i = 0; i < 100; ++i) {
    const RequestId id = Add(Range(40, 10000 + 100 * i));
    Turn();
    if (scheduler_->Find(id)->state == SequenceState::kRunning) ++num_passed;
    scheduler_->Remove(id);
  }
  EXPECT_EQ(num_passed, 16);
  scheduler_->Remove(small_one);
  Turn();
  EXPECT_EQ(scheduler_->Find(large)->state, SequenceState::kRunning);
}

TEST_F(SchedulerTest, WhatThePoolLostComesBackFromTheHostArena) {
  host_blocks_ = 32;
  Make(8, 512);
  const RequestId first = Add(Range(200));
  Turn();
  scheduler_->Remove(first);
  const RequestId second = Add(Range(250, 7000));  // takes the whole pool
  Turn();
  scheduler_->Remove(second);
  const RequestId again = Add(Range(200));
  Turn();
  const Sequence* sequence = scheduler_->Find(again);
  EXPECT_EQ(sequence->num_host_tokens, 192);
  EXPECT_EQ(sequence->num_prefilled_tokens, 8);
  groups_.full().host()->CheckIntegrity();
}

TEST_F(SchedulerTest, TheYoungestGivesWayAndAllFinish) {
  Make(8, 256);
  std::map<RequestId, int> wanted;
  for (int i = 0; i < 4; ++i) wanted[Add(Range(40, i * 1000))] = 150;
  int num_turns = 0;
  while (!wanted.empty()) {
    ASSERT_LT(++num_turns, 3000) << "no progress";
    Turn();
    for (auto it = wanted.begin(); it != wanted.end();) {
      const bool done = scheduler_->Find(it->first)->num_tokens() >= it->second;
      if (done) scheduler_->Remove(it->first);
      it = done ? wanted.erase(it) : std::next(it);
    }
  }
  EXPECT_GT(scheduler_->num_preemptions(), 0u);
}

TEST_F(SchedulerTest, StoredBlocksAreRestoredAndTheRestIsComputed) {
  Make(16, 512, true);
  const RequestId first = Add(Range(130));
  Turn();
  Sequence* sequence = scheduler_->Find(first);
  const UnstoredBlocks unstored(groups_, tier_.get(), nullptr);
  std::vector<tier::WriteItem> items = unstored.Take(*sequence);
  ASSERT_EQ(items.size(), 4u);
  EXPECT_TRUE(unstored.Take(*sequence).empty());
  auto held = unstored.Hold(*sequence, items);
  ASSERT_TRUE(tier_->Write(99, items));
  EXPECT_EQ(WaitForCompletion().num_ok, 4u);
  kv::ReleaseLastToFirst(held);
  scheduler_->Remove(first);
  cache_->Clear();

  store_.fail_gets_from_depth = 3;  // the fourth block is damaged
  const RequestId second = Add(Range(130));
  EXPECT_TRUE(Turn().empty());  // the sequence waits for the store
  EXPECT_EQ(scheduler_->Find(second)->state, SequenceState::kRestoring);
  scheduler_->OnRestored(WaitForCompletion());
  const auto step = Turn();
  ASSERT_EQ(step.size(), 1u);
  EXPECT_EQ(step[0].num_tokens, 130 - 96);
  EXPECT_EQ(scheduler_->Find(second)->num_disk_tokens, 96);
  EXPECT_EQ(scheduler_->Find(second)->given_up.reason, GivenUpLoad::Reason::kDamaged);
  EXPECT_EQ(scheduler_->Find(second)->given_up.num_tokens, 32);
}

// When the process gets no processor time, neither loading nor computing progresses.
TEST_F(SchedulerTest, TimeInWhichNobodyCouldLookIsNotCountedAgainstALoad) {
  costs_.ObserveStep(512, 0, 512 * 1e-3);
  Make(40, 512, true);
  Store(Range(330));
  const test::ManualClock clock;
  store_.holds_gets = true;
  const RequestId id = Add(Range(330));
  EXPECT_TRUE(Turn().empty());
  ASSERT_TRUE(test::WaitUntil([&] { return store_.num_gets_held > 0; }, "a reader reads"));
  for (int look = 0; look < 3; ++look) {
    test::ManualClock::Advance(milliseconds(100));
    scheduler_->GiveUpLateRestores();
  }
  EXPECT_EQ(scheduler_->Find(id)->state, SequenceState::kRestoring);
  // If a step took as long, computing would have progressed, so that time counts against the load.
  test::ManualClock::Advance(milliseconds(90));
  scheduler_->GiveUpLateRestores(true);
  EXPECT_EQ(scheduler_->Find(id)->state, SequenceState::kRunning);
  EXPECT_EQ(scheduler_->restorer().num_cut(), 1u);
  store_.holds_gets = false;
  scheduler_->Remove(id);
  scheduler_->OnRestored(WaitForCompletion());
}

// The numbers were measured in 4 of 24 restarts of a loaded machine: the first read took 45 ms, the
// other 1500 blocks 8 ms, and computing the prompt would have taken 2.8 s.
TEST_F(SchedulerTest, AFirstReadThatTakesAWhileIsWaitedFor) {
  costs_.ObserveStep(128, 64, 128 * 14e-6);
  costs_.SetSlope(2.2e-9);
  Make(330, 10'240, true);
  Store(Range(10'000));
  const test::ManualClock clock;
  // All reads together take 3 ms, so that a reader which the machine lets wait sees no first read
  // of more than 50 ms.
  store_.get_takes_us = 10;
  store_.holds_gets = true;
  const RequestId id = Add(Range(10'000));
  EXPECT_TRUE(Turn().empty());
  ASSERT_TRUE(test::WaitUntil([&] { return store_.num_gets_held == 2; }, "both readers read"));
  for (int ms = 0; ms < 45; ++ms) {
    test::ManualClock::Advance(milliseconds(1));
    scheduler_->GiveUpLateRestores();
  }
  store_.holds_gets = false;
  const auto has_ended = [&] {
    scheduler_->GiveUpLateRestores();
    if (HasCompletion()) scheduler_->OnRestored(WaitForCompletion());
    return !scheduler_->restoring();
  };
  ASSERT_TRUE(test::WaitUntil(has_ended, "the load ends"));
  EXPECT_EQ(scheduler_->restorer().num_cut(), 0u);
  EXPECT_EQ(scheduler_->Find(id)->num_disk_tokens, 9984);
  EXPECT_EQ(scheduler_->Find(id)->given_up.reason, GivenUpLoad::Reason::kNone);
  // The slow first read does not count against the next load, either.
  scheduler_->Remove(id);
  cache_->Clear();
  const RequestId second = Add(Range(10'000));
  Turn();
  EXPECT_EQ(scheduler_->Find(second)->state, SequenceState::kRestoring);
  EXPECT_EQ(scheduler_->restorer().num_skipped(), 0u);
  scheduler_->OnRestored(WaitForCompletion());
}

TEST_F(SchedulerTest, ALoadThatFallsBehindComputingIsGivenUp) {
  costs_.ObserveStep(512, 0, 512 * 1e-3);  // a block takes 32 ms to compute
  Make(40, 512, true);
  Store(Range(330));
  const test::ManualClock clock;
  store_.holds_gets = true;
  const RequestId id = Add(Range(330));
  EXPECT_TRUE(Turn().empty());
  ASSERT_TRUE(test::WaitUntil([&] { return store_.num_gets_held == 2; }, "both readers read"));
  int waited_ms = 0;
  while (scheduler_->Find(id)->state == SequenceState::kRestoring && waited_ms < 1000) {
    test::ManualClock::Advance(milliseconds(1));
    ++waited_ms;
    scheduler_->GiveUpLateRestores();
  }
  // A load may lag by a twentieth of the 320 ms of computing, and by the time that a first read may
  // take.
  EXPECT_GE(waited_ms, 16);
  EXPECT_LT(waited_ms, 150);
  EXPECT_EQ(scheduler_->restorer().num_cut(), 1u);
  const GivenUpLoad& given_up = scheduler_->Find(id)->given_up;
  EXPECT_EQ(given_up.reason, GivenUpLoad::Reason::kLate);
  EXPECT_EQ(given_up.num_tokens, 320);
  EXPECT_GT(given_up.load_seconds, 0.010);
  EXPECT_NEAR(given_up.compute_seconds, 0.32, 1e-6);
  EXPECT_TRUE(scheduler_->restoring()) << "two readers are still at it";
  const auto step = Turn();
  ASSERT_EQ(step.size(), 1u);
  EXPECT_EQ(step[0].num_tokens, 330);
  const std::vector<BlockId> table = scheduler_->Find(id)->full().block_table;
  store_.get_takes_us = 200'000;
  store_.holds_gets = false;
  scheduler_->OnRestored(WaitForCompletion());
  EXPECT_FALSE(scheduler_->restoring());
  EXPECT_EQ(scheduler_->Find(id)->full().block_table, table);
  // The disk is known to be slow from here on, so no request waits for it.
  const RequestId second = Add(Range(330, 0), "");
  scheduler_->Remove(id);
  cache_->Clear();
  Turn();
  EXPECT_EQ(scheduler_->Find(second)->state, SequenceState::kRunning);
  EXPECT_EQ(scheduler_->restorer().num_skipped(), 1u);
  EXPECT_EQ(scheduler_->Find(second)->given_up.reason, GivenUpLoad::Reason::kNotWorthIt);
  EXPECT_GT(scheduler_->Find(second)->given_up.load_seconds, 0.33);
}

TEST_F(SchedulerTest, ASequenceThatEndsDuringItsLoadLeavesTheReadersTheirBlocks) {
  Make(40, 512, true);
  Store(Range(330));
  store_.holds_gets = true;
  const RequestId id = Add(Range(330));
  Turn();
  ASSERT_EQ(scheduler_->Find(id)->state, SequenceState::kRestoring);
  ASSERT_TRUE(test::WaitUntil([&] { return store_.num_gets_held == 2; }, "both readers read"));
  EXPECT_NE(scheduler_->Remove(id), nullptr);
  EXPECT_EQ(pool_->num_used(), 2u);
  store_.holds_gets = false;
  scheduler_->OnRestored(WaitForCompletion());
  EXPECT_EQ(pool_->num_used(), 0u);
}

TEST_F(SchedulerTest, ABoundedContextKeepsItsBlocksAndGoesOn) {
  for (const ContextPolicy policy : {ContextPolicy::kSlidingWindow, ContextPolicy::kAttentionSink,
                                     ContextPolicy::kLeastAttended}) {
    options_.context_policy = policy;
    options_.context_policy_tokens = 128;
    Make(60, 512);
    const RequestId id = Add(Range(2000));
    int num_turns = 0;
    while (scheduler_->Find(id)->num_tokens() < 2300) {
      ASSERT_LT(++num_turns, 500) << "no progress";
      Turn();
      const Sequence* sequence = scheduler_->Find(id);
      ASSERT_LE(sequence->full().blocks.size(), 4u + 8u);
      ASSERT_EQ(sequence->num_dropped_tokens % 32, 0);
      ASSERT_LE(sequence->num_slots(), 128 + 256);
      // Drops happen at fixed positions, whatever the chunks were: 256 tokens at once at position
      // 384 and every 256 tokens after it.
      ASSERT_EQ(sequence->num_dropped_tokens,
                sequence->num_computed < 384 ? 0 : (sequence->num_computed - 128) / 256 * 256);
      ASSERT_EQ(sequence->block_mass.size(),
                policy == ContextPolicy::kLeastAttended ? sequence->full().blocks.size() : 0u);
    }
    EXPECT_EQ(scheduler_->Find(id)->num_prefilled_tokens, 2000);
    scheduler_->Remove(id);
    // Blocks computed before the first drop hold valid KV of their prefix; none after it may be a
    // hit.
    const RequestId again = Add(Range(2000));
    Turn();
    EXPECT_GT(scheduler_->Find(again)->num_device_tokens, 0);
    EXPECT_LE(scheduler_->Find(again)->num_device_tokens, 128 + 256);
    scheduler_->Remove(again);
    scheduler_.reset();
  }
}

// Requests arrive, are cancelled and end in any order; the harness checks pool and cache after each
// turn.
TEST_F(SchedulerTest, KeepsItsBooksOverRandomTrafficOfBoundedContexts) {
  options_.context_policy = ContextPolicy::kAttentionSink;
  options_.context_policy_tokens = 128;
  Make(40, 96);
  std::mt19937 random(6);
  for (int turn = 0; turn < 10000; ++turn) {
    if (random() % 3 == 0 && scheduler_->Ids().size() < 12) {
      Add(Range(1 + static_cast<int>(random() % 600), random() % 2 == 0 ? 0 : 5000));
    }
    Turn();
    for (const RequestId id : scheduler_->Ids()) {
      const Sequence* sequence = scheduler_->Find(id);
      const bool too_long = sequence->num_tokens() > sequence->num_prompt_tokens + 100;
      if (too_long || random() % 100 == 0) scheduler_->Remove(id);
    }
  }
}

TEST_F(SchedulerTest, KeepsItsBooksOverRandomTraffic) {
  options_.tenant_kv_share = 0.8;
  options_.step.short_prompt_tokens = 100;
  host_blocks_ = 10;
  Make(24, 96);
  std::mt19937 random(5);
  for (int turn = 0; turn < 20000; ++turn) {
    if (random() % 3 == 0 && scheduler_->Ids().size() < 20) {
      Tokens tokens = Range(1 + static_cast<int>(random() % 200));
      if (random() % 2 == 0) tokens[tokens.size() / 2] = 5000 + static_cast<TokenId>(random() % 4);
      Add(std::move(tokens), random() % 3 == 0 ? "b" : "a");
    }
    Turn();
    groups_.full().host()->CheckIntegrity();
    for (const RequestId id : scheduler_->Ids()) {
      const Sequence* sequence = scheduler_->Find(id);
      const bool too_long = sequence->num_tokens() > sequence->num_prompt_tokens + 60;
      if (too_long || random() % 50 == 0) scheduler_->Remove(id);
    }
  }
}

}  // namespace
}  // namespace kvgate::schedule
