#include "engine/schedule/window_groups.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/schedule/scheduler.h"
#include "kernels/reference/reference_backend.h"
#include "tests/engine/memory_kv_store.h"
#include "tests/engine/schedule/computed_sequences.h"

namespace kvgate::schedule {
namespace {

using kernels::kKvBlockTokens;

constexpr int kWindow = 70;  // covers three blocks before a resume point
constexpr int kTail = 3;

// The fixture has a scheduler over a full group and one with a window; the "model" is a counter.
class WindowGroupsTest : public testing::Test {
 protected:
  void Make(uint32_t num_blocks, uint32_t num_window_blocks, int step_tokens_max = 128) {
    // A test may make these a second time, and then borrowers go before what they borrow from.
    groups_.reset();
    scheduler_.reset();
    kv_groups_ = {};
    backend_ = kernels::reference::MakeReferenceBackend();
    const std::vector<tier::KvGroup::Options> kv_groups{
        {.window = 0,
         .shape = {.num_layers = 1, .num_kv_heads = 1, .head_dim = 2},
         .num_blocks = num_blocks,
         .host_bytes = {},
         .owner_blocks_max = 0},
        {.window = kWindow,
         .shape = {.num_layers = 2, .num_kv_heads = 1, .head_dim = 2},
         .num_blocks = num_window_blocks,
         .host_bytes = {},
         .owner_blocks_max = 0}};
    kv_groups_ = *tier::KvGroups::Open(kv_groups, *backend_);
    window_pool_ = &kv_groups_.windows().front()->pool();
    window_cache_ = &kv_groups_.windows().front()->cache();
    Scheduler::Options options;
    options.step.tokens_max = step_tokens_max;
    options.sequences_max = 8;
    scheduler_ = std::make_unique<Scheduler>(options, Scheduler::Parts{.hasher = hasher_,
                                                                       .groups = kv_groups_,
                                                                       .stores = {},
                                                                       .backend = *backend_,
                                                                       .costs = costs_});
    groups_ = std::make_unique<WindowGroups>(kv_groups_.windows());
  }
  void TearDown() override {
    for (const RequestId id : scheduler_->Ids()) scheduler_->Remove(id);
    for (const auto& group : kv_groups_.all()) EXPECT_EQ(group->pool().num_used(), 0u);
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
  // Checks that all the step reads and writes is held: [first position - window + 1, end).
  void CheckHeld(const StepItem& item) {
    const Sequence& sequence = *item.sequence;
    const HeldBlocks& held = sequence.held[1];
    const int first = std::max(0, sequence.num_computed - kWindow + 1);
    const int last = sequence.num_computed + item.num_tokens - 1;
    EXPECT_LE(held.first, first / kKvBlockTokens);
    EXPECT_GE(held.end(), last / kKvBlockTokens + 1);
    EXPECT_EQ(std::ssize(held.block_table), held.end());
  }
  std::vector<StepItem> Turn() {
    scheduler_->AdmitWaiting();
    std::vector<StepItem> step = scheduler_->PlanStep();
    for (const StepItem& item : step) CheckHeld(item);
    most_used_ = std::max(most_used_, window_pool_->num_used());
    for (const StepItem& item : step) {
      scheduler_->OnComputed(item);
      scheduler_->SlideWindows(*item.sequence);
      if (item.wants_logits) item.sequence->tokens.push_back(7);
    }
    for (const auto& group : kv_groups_.all()) {
      group->pool().CheckIntegrity();
      group->cache().CheckIntegrity();
    }
    return step;
  }
  void Finish(RequestId id) {
    while (scheduler_->Find(id)->num_computed < scheduler_->Find(id)->num_prompt_tokens) Turn();
    scheduler_->Remove(id);
  }

  CostModel costs_;
  std::unique_ptr<kernels::Backend> backend_;
  tier::KvGroups kv_groups_;
  kv::BlockPool* window_pool_ = nullptr;
  kv::WindowCache* window_cache_ = nullptr;
  kv::BlockHasher hasher_{{.fingerprint = {}, .seed = 1}};
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<WindowGroups> groups_;
  uint32_t most_used_ = 0;
  uint64_t next_id_ = 1;
};

TEST_F(WindowGroupsTest, APromptOfTwentyWindowsHoldsAWindowAndAStepAtAnyTime) {
  Make(64, 64);
  const RequestId id = Add(Range(20 * kWindow));
  Finish(id);
  // At most the tail, the block before the newest position and the blocks of one step are held.
  EXPECT_LE(most_used_, static_cast<uint32_t>(kTail + 1 + 128 / kKvBlockTokens));
  EXPECT_GT(most_used_, 0u);
}

TEST_F(WindowGroupsTest, ThePlaceIsTheLastOneBehindWhichNoBlockIsMissing) {
  Make(64, 64);
  Finish(Add(Range(640)));
  std::vector<kv::BlockKey> keys;
  kv::BlockKey last = hasher_.Root("");
  const Tokens tokens = Range(640);
  for (size_t block = 0; block < 20; ++block) {
    last = hasher_.Next(last, std::span(tokens).subspan(block * 32).first<32>());
    keys.push_back(last);
  }
  EXPECT_EQ(groups_->LastResumePoint(keys, 20, nullptr), 20);
  EXPECT_EQ(groups_->LastResumePoint(keys, 11, nullptr), 11);
  // Without block 12, no request can resume after blocks 12 to 14.
  std::vector<kv::BlockRef> others;
  while (window_cache_->Contains(keys[12])) {
    others.push_back(std::move(window_pool_->Acquire(1)->front()));
  }
  EXPECT_FALSE(window_cache_->Contains(keys[0]));  // it slid out of the window before
  EXPECT_EQ(groups_->LastResumePoint(keys, 15, nullptr), 0);
  EXPECT_EQ(groups_->LastResumePoint(keys, 16, nullptr), 16);
  EXPECT_EQ(groups_->LastResumePoint(keys, 20, nullptr), 20);
}

TEST_F(WindowGroupsTest, AHitIsCutAndItsOwnPlaceIsKeptFromThenOn) {
  Make(128, 40);
  Tokens first = Range(640);
  Finish(Add(first));
  for (TokenId other = 1; other <= 3; ++other) Finish(Add(Range(320, other * 1000)));
  Tokens second = Range(400);
  second.push_back(9999);
  const RequestId cut = Add(second);
  Turn();
  EXPECT_EQ(scheduler_->Find(cut)->num_device_tokens, 0);
  Finish(cut);
  for (TokenId other = 4; other <= 5; ++other) Finish(Add(Range(320, other * 1000)));
  second.back() = 9998;
  const RequestId hit = Add(second);
  Turn();
  EXPECT_EQ(scheduler_->Find(hit)->num_device_tokens, 384);
}

TEST_F(WindowGroupsTest, WhoFindsNoWindowBlocksGivesWayToTheOldest) {
  Make(128, 12);
  std::vector<RequestId> ids;
  for (TokenId i = 0; i < 6; ++i) ids.push_back(Add(Range(60 + 20 * i, i * 1000)));
  std::vector<bool> done(ids.size());
  size_t num_done = 0;
  for (int turn = 0; turn < 3000 && num_done < ids.size(); ++turn) {
    Turn();
    for (size_t i = 0; i < ids.size(); ++i) {
      if (done[i] || scheduler_->Find(ids[i])->num_tokens() < 260) continue;
      scheduler_->Remove(ids[i]);
      done[i] = true;
      ++num_done;
    }
  }
  EXPECT_EQ(num_done, ids.size());
}

TEST_F(WindowGroupsTest, KeepsItsBooksOverRandomTraffic) {
  std::mt19937 random(7);
  for (int round = 0; round < 8; ++round) {
    if (scheduler_ != nullptr) TearDown();
    scheduler_.reset();
    Make(40 + random() % 40, 12 + random() % 30, 64);
    std::vector<RequestId> ids;
    for (int turn = 0; turn < 400; ++turn) {
      if (random() % 4 == 0 && ids.size() < 12) {
        Tokens tokens = Range(1 + static_cast<int>(random() % 600));
        for (size_t i = random() % tokens.size(); i < tokens.size(); ++i) {
          tokens[i] += static_cast<TokenId>(1000 * (random() % 3));
        }
        ids.push_back(Add(std::move(tokens)));
      }
      if (random() % 12 == 0 && !ids.empty()) {
        const size_t index = random() % ids.size();
        scheduler_->Remove(ids[index]);
        ids.erase(ids.begin() + static_cast<long>(index));
      }
      Turn();
      std::erase_if(ids, [&](RequestId id) {
        if (scheduler_->Find(id)->num_tokens() < 620) return false;
        scheduler_->Remove(id);
        return true;
      });
    }
  }
}

}  // namespace
}  // namespace kvgate::schedule
