#include "engine/tier/disk_tier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>

#include "kernels/reference/reference_backend.h"
#include "tests/engine/memory_kv_store.h"

namespace kvgate::tier {
namespace {

class DiskTierTest : public testing::Test {
 protected:
  DiskTierTest()
      : backend_(kernels::reference::MakeReferenceBackend()),
        arena_(*backend_->AllocateKv({.num_layers = 1, .num_kv_heads = 1, .head_dim = 8}, 32)),
        hasher_({.fingerprint = {}, .seed = 1}) {}

  std::unique_ptr<DiskTier> MakeTier(uint64_t write_bytes_max = uint64_t{1} << 20) {
    return std::make_unique<DiskTier>(
        DiskTier::Options{.fingerprint = {.low = 5, .high = 6},
                          .shape_tag = 9,
                          .write_bytes_max = write_bytes_max,
                          .load_threads = 2,
                          .on_completion = [this](Completion completion) { OnDone(completion); }},
        store_, *backend_, *arena_);
  }
  void OnDone(const Completion& completion) {
    const std::lock_guard lock(mutex_);
    done_[completion.ticket] = completion;
    changed_.notify_all();
  }
  Completion WaitFor(uint64_t ticket) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_.contains(ticket); });
    return done_[ticket];
  }
  kv::BlockKey Key(TokenId first) {
    std::array<TokenId, kernels::kKvBlockTokens> tokens{};
    tokens[0] = first;
    return hasher_.Next(hasher_.Root(""), tokens);
  }
  void Fill(uint32_t block, uint8_t byte) {
    const std::vector<std::byte> bytes(arena_->block_bytes(), std::byte{byte});
    backend_->WriteKvBlock(*arena_, BlockId{block}, bytes);
  }
  bool Holds(uint32_t block, uint8_t byte) {
    std::vector<std::byte> bytes(arena_->block_bytes());
    backend_->ReadKvBlock(*arena_, BlockId{block}, bytes);
    return std::ranges::all_of(bytes, [&](std::byte b) { return b == std::byte{byte}; });
  }
  std::vector<WriteItem> Items(int count) {
    std::vector<WriteItem> items;
    for (int i = 0; i < count; ++i) {
      Fill(static_cast<uint32_t>(i), static_cast<uint8_t>(i + 1));
      items.push_back({.key = Key(i),
                       .parent = {},
                       .depth = static_cast<uint32_t>(i),
                       .block = BlockId{static_cast<uint32_t>(i)}});
    }
    return items;
  }

  store::MemoryKvStore store_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<kernels::KvArena> arena_;
  kv::BlockHasher hasher_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Completion> done_;
};

TEST_F(DiskTierTest, WhatIsWrittenComesBackBitForBitInOtherBlocks) {
  const auto tier = MakeTier();
  ASSERT_TRUE(tier->Write(1, Items(12)));
  EXPECT_EQ(WaitFor(1).num_ok, 12u);
  std::vector<LoadItem> loads;
  for (int i = 0; i < 12; ++i) {
    EXPECT_TRUE(tier->Contains(Key(i)));
    loads.push_back({.key = Key(i), .block = BlockId{static_cast<uint32_t>(16 + i)}});
  }
  tier->Load(2, loads);
  EXPECT_EQ(WaitFor(2).num_ok, 12u);
  for (uint32_t i = 0; i < 12; ++i) EXPECT_TRUE(Holds(16 + i, static_cast<uint8_t>(i + 1)));
}

TEST_F(DiskTierTest, ALoadCountsOnlyTheItemsBeforeTheFirstFailure) {
  const auto tier = MakeTier();
  ASSERT_TRUE(tier->Write(1, Items(6)));
  WaitFor(1);
  store_.fail_gets_from_depth = 4;
  std::vector<LoadItem> loads;
  for (int i = 0; i < 6; ++i) {
    loads.push_back({.key = Key(i), .block = BlockId{static_cast<uint32_t>(16 + i)}});
  }
  tier->Load(2, loads);
  EXPECT_EQ(WaitFor(2).num_ok, 4u);
}

TEST_F(DiskTierTest, AnotherPrefixUnderTheSameHashIsAMiss) {
  const auto tier = MakeTier();
  ASSERT_TRUE(tier->Write(1, Items(1)));
  WaitFor(1);
  kv::BlockKey forged = Key(0);
  forged.digest.bytes[31] ^= 1;
  EXPECT_TRUE(tier->Contains(forged));
  tier->Load(2, {{.key = forged, .block = BlockId{20}}});
  EXPECT_EQ(WaitFor(2).num_ok, 0u);
}

TEST_F(DiskTierTest, WritesBeyondTheBoundAreRefusedAndTheQueueDrains) {
  store_.put_delay_ms = 20;
  const auto tier = MakeTier(4 * arena_->block_bytes());
  EXPECT_FALSE(tier->Write(1, Items(5)));
  ASSERT_TRUE(tier->Write(2, Items(3)));
  EXPECT_FALSE(tier->Write(3, Items(2)));
  WaitFor(2);
  ASSERT_TRUE(tier->Flush().has_value());
  EXPECT_EQ(tier->write_bytes_queued(), 0u);
  ASSERT_TRUE(tier->Write(4, Items(4)));
  WaitFor(4);
}

TEST_F(DiskTierTest, AFailingStoreEndsTheJobAndTheWorkerLivesOn) {
  const auto tier = MakeTier();
  store_.fail_put = true;
  ASSERT_TRUE(tier->Write(1, Items(3)));
  EXPECT_EQ(WaitFor(1).num_ok, 0u);
  store_.fail_put = false;
  ASSERT_TRUE(tier->Write(2, Items(3)));
  EXPECT_EQ(WaitFor(2).num_ok, 3u);
}

TEST_F(DiskTierTest, DestructionFinishesWhatIsQueued) {
  auto tier = MakeTier();
  store_.put_delay_ms = 5;
  for (uint64_t ticket = 1; ticket <= 5; ++ticket) ASSERT_TRUE(tier->Write(ticket, Items(2)));
  tier.reset();
  EXPECT_EQ(done_.size(), 5u);
}

}  // namespace
}  // namespace kvgate::tier
