// SchedulerHarness: a scheduler with a pool and, if asked for, a host arena and a store. The
// "model" is a counter.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/schedule/scheduler.h"
#include "engine/schedule/unstored_blocks.h"
#include "kernels/reference/reference_backend.h"
#include "tests/engine/memory_kv_store.h"
#include "tests/engine/schedule/computed_sequences.h"
#include "tests/wait_until.h"

namespace kvgate::schedule {

class SchedulerHarness : public testing::Test {
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
      tier_ = std::make_unique<tier::StoreTier>(
          tier::StoreTier::Options{.fingerprint = {},
                                   .groups = {{.arena = &groups_.full().arena(), .shape_tag = 0}},
                                   .on_completion =
                                       [this](tier::Completion done) {
                                         const std::lock_guard lock(mutex_);
                                         completions_.push_back(done);
                                       }},
          store_, *backend_);
    }
    options_.step.tokens_max = step_tokens_max;
    scheduler_ =
        std::make_unique<Scheduler>(options_, Scheduler::Parts{.hasher = hasher_,
                                                               .groups = groups_,
                                                               .stores = {.disk = tier_.get()},
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
  std::unique_ptr<tier::StoreTier> tier_;
  std::unique_ptr<Scheduler> scheduler_;
  uint64_t next_id_ = 1;
};

}  // namespace kvgate::schedule
