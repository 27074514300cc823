#include "engine/schedule/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "kernels/reference/reference_backend.h"
#include "tests/engine/memory_kv_store.h"

namespace kvgate::schedule {
namespace {

using Tokens = std::vector<TokenId>;

Tokens Range(int count, TokenId first = 0) {
  Tokens tokens(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) tokens[static_cast<size_t>(i)] = first + i;
  return tokens;
}

// A scheduler with a pool and, where asked for, a store; the "model" is a counter.
class SchedulerTest : public testing::Test {
 protected:
  void Make(uint32_t num_blocks, int step_tokens_max = 128, bool with_tier = false) {
    backend_ = kernels::reference::MakeReferenceBackend();
    arena_ = *backend_->AllocateKv({.num_layers = 1, .num_kv_heads = 1, .head_dim = 2}, num_blocks);
    pool_ = std::make_unique<kv::BlockPool>(num_blocks);
    cache_ = std::make_unique<kv::PrefixCache>(*pool_);
    if (with_tier) {
      tier_ = std::make_unique<tier::DiskTier>(
          tier::DiskTier::Options{.fingerprint = {},
                                  .on_completion =
                                      [this](tier::Completion done) {
                                        const std::lock_guard lock(mutex_);
                                        completions_.push_back(done);
                                      }},
          store_, *backend_, *arena_);
    }
    scheduler_ = std::make_unique<Scheduler>(
        Scheduler::Options{.step_tokens_max = step_tokens_max, .sequences_max = 8}, hasher_, *pool_,
        *cache_, tier_.get(), *backend_, *arena_);
  }
  RequestId Add(Tokens tokens) {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = RequestId{next_id_++};
    sequence->num_prompt_tokens = static_cast<int>(tokens.size());
    sequence->tokens = std::move(tokens);
    const RequestId id = sequence->id;
    scheduler_->Add(std::move(sequence));
    return id;
  }
  // One turn of an engine: every sequence whose logits came gets a next token.
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
  tier::Completion WaitForCompletion() {
    while (true) {
      {
        const std::lock_guard lock(mutex_);
        if (!completions_.empty()) {
          const tier::Completion done = completions_.front();
          completions_.erase(completions_.begin());
          return done;
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void TearDown() override {
    if (scheduler_ != nullptr) {
      for (const RequestId id : scheduler_->Ids()) scheduler_->Remove(id);
      EXPECT_EQ(pool_->num_used(), 0u);
    }
    tier_.reset();
  }

  store::MemoryKvStore store_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<kernels::KvArena> arena_;
  kv::BlockHasher hasher_{{.fingerprint = {}, .seed = 1}};
  std::unique_ptr<kv::BlockPool> pool_;
  std::unique_ptr<kv::PrefixCache> cache_;
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
  EXPECT_EQ(step[1].num_tokens, 32);  // 63 of the budget are left: one whole block
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

TEST_F(SchedulerTest, EqualPromptsSideBySideEndUpOnTheSameBlocks) {
  Make(64, 512);
  const RequestId first = Add(Range(96));
  const RequestId second = Add(Range(96));
  Turn();
  EXPECT_EQ(scheduler_->Find(first)->block_table, scheduler_->Find(second)->block_table);
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
  std::vector<tier::WriteItem> items = scheduler_->TakeUnstoredBlocks(*sequence);
  ASSERT_EQ(items.size(), 4u);
  EXPECT_TRUE(scheduler_->TakeUnstoredBlocks(*sequence).empty());
  auto held = scheduler_->HoldBlocks(*sequence, 4);
  ASSERT_TRUE(tier_->Write(99, items));
  EXPECT_EQ(WaitForCompletion().num_ok, 4u);
  kv::ReleaseLastToFirst(held);
  scheduler_->Remove(first);
  cache_->Clear();

  store_.fail_gets_from_depth = 3;  // the fourth block turns out damaged
  const RequestId second = Add(Range(130));
  EXPECT_TRUE(Turn().empty());  // it waits for the store
  EXPECT_EQ(scheduler_->Find(second)->state, SequenceState::kRestoring);
  const tier::Completion done = WaitForCompletion();
  EXPECT_EQ(done.ticket, second.value);
  scheduler_->OnRestored(second, done.num_ok);
  const auto step = Turn();
  ASSERT_EQ(step.size(), 1u);
  EXPECT_EQ(step[0].num_tokens, 130 - 96);
  EXPECT_EQ(scheduler_->Find(second)->num_disk_tokens, 96);
}

// Arrivals, cancels and ends in any order; the harness checks pool and cache after each turn.
TEST_F(SchedulerTest, KeepsItsBooksOverRandomTraffic) {
  Make(24, 96);
  std::mt19937 random(5);
  for (int turn = 0; turn < 20000; ++turn) {
    if (random() % 3 == 0 && scheduler_->Ids().size() < 20) {
      Tokens tokens = Range(1 + static_cast<int>(random() % 200));
      if (random() % 2 == 0) tokens[tokens.size() / 2] = 5000 + static_cast<TokenId>(random() % 4);
      Add(std::move(tokens));
    }
    Turn();
    for (const RequestId id : scheduler_->Ids()) {
      const Sequence* sequence = scheduler_->Find(id);
      const bool too_long = sequence->num_tokens() > sequence->num_prompt_tokens + 60;
      if (too_long || random() % 50 == 0) scheduler_->Remove(id);
    }
  }
}

}  // namespace
}  // namespace kvgate::schedule
