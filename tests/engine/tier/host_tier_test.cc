#include "engine/tier/host_tier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "kernels/reference/reference_backend.h"
#include "tests/engine/device_backend.h"
#include "tests/wait_until.h"

namespace kvgate::tier {
namespace {

class HostTierTest : public testing::Test {
 protected:
  HostTierTest()
      : backend_(kernels::reference::MakeReferenceBackend()),
        arena_(*backend_->AllocateKv({.num_layers = 1, .num_kv_heads = 1, .head_dim = 8}, 8)),
        hasher_({.fingerprint = {}, .seed = 1}) {}

  std::unique_ptr<HostTier> Make(uint32_t num_blocks) {
    return *HostTier::Open(num_blocks * arena_->block_bytes(), *backend_, *arena_);
  }
  kv::BlockKey Key(TokenId first) {
    std::array<TokenId, kernels::kKvBlockTokens> tokens{};
    tokens[0] = first;
    return hasher_.Next(hasher_.Root(""), tokens);
  }
  void Put(HostTier& tier, int content) {
    const std::vector<std::byte> bytes(arena_->block_bytes(), static_cast<std::byte>(content));
    backend_->WriteKvBlock(*arena_, BlockId{0}, bytes);
    tier.Put(Key(content), BlockId{0}, 0);
    tier.BeginCopies();
  }
  int Restore(HostTier& tier, int content) {
    const kv::BlockKey key = Key(content);
    const BlockId block{3};
    tier.Restore(tier.Match({&key, 1}), {&block, 1});
    std::vector<std::byte> bytes(arena_->block_bytes());
    backend_->ReadKvBlock(*arena_, block, bytes);
    EXPECT_TRUE(std::ranges::all_of(bytes, [&](std::byte b) { return b == bytes[0]; }));
    return static_cast<int>(bytes[0]);
  }

  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<kernels::KvArena> arena_;
  kv::BlockHasher hasher_;
};

TEST_F(HostTierTest, MemoryForNoBlockIsRefusedAndNamed) {
  const auto refused = HostTier::Open(arena_->block_bytes() - 1, *backend_, *arena_);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().field, "host_memory");
}

TEST_F(HostTierTest, WhatIsPutComesBackAndStays) {
  const auto tier = Make(4);
  Put(*tier, 7);
  EXPECT_EQ(Restore(*tier, 7), 7);
  EXPECT_EQ(Restore(*tier, 7), 7);
  EXPECT_FALSE(tier->Contains(Key(8)));
  tier->CheckIntegrity();
}

TEST_F(HostTierTest, AnotherPrefixUnderTheSameHashIsNotThere) {
  const auto tier = Make(4);
  Put(*tier, 7);
  kv::BlockKey forged = Key(7);
  forged.digest.bytes[0] ^= 1;
  EXPECT_FALSE(tier->Contains(forged));
  tier->Put(forged, BlockId{0}, 0);  // the first entry stays
  tier->BeginCopies();
  EXPECT_TRUE(tier->Contains(Key(7)));
  EXPECT_FALSE(tier->Contains(forged));
}

TEST_F(HostTierTest, WhatIsHeldSurvivesAFlood) {
  const auto tier = Make(3);
  for (const int content : {1, 2, 3}) Put(*tier, content);
  const std::vector<kv::BlockKey> keys = {Key(2), Key(1), Key(9)};
  std::vector<kv::BlockRef> copies = tier->Match(keys);
  ASSERT_EQ(copies.size(), 2u);
  for (int content = 10; content < 20; ++content) Put(*tier, content);
  const std::vector<BlockId> blocks = {BlockId{4}, BlockId{5}};
  tier->Restore(std::move(copies), blocks);
  EXPECT_TRUE(tier->Contains(Key(1)) && tier->Contains(Key(2)) && tier->Contains(Key(19)));
  tier->CheckIntegrity();
}

TEST_F(HostTierTest, AnImportantBlockGoesLast) {
  const auto tier = Make(3);
  for (const int content : {1, 2, 3}) Put(*tier, content);
  tier->SetPriorities({{Key(1).hash, 1}});
  for (int content = 10; content < 20; ++content) Put(*tier, content);
  EXPECT_EQ(Restore(*tier, 1), 1);
}

// With one use each, eviction is LRU by put and restore; restored blocks live longer. The test
// therefore only checks that the newest block is there, that contents are right and that the count
// is kept.
TEST_F(HostTierTest, HoldsWhatItSaysOverRandomOperations) {
  const auto tier = Make(6);
  std::mt19937 random(3);
  for (int operation = 0; operation < 100000; ++operation) {
    const int content = static_cast<int>(random() % 20);
    if (random() % 2 == 0) {
      Put(*tier, content);
      ASSERT_TRUE(tier->Contains(Key(content))) << "the newest is not there";
    } else if (tier->Contains(Key(content))) {
      ASSERT_EQ(Restore(*tier, content), content);
    }
    if (operation % 256 == 0) tier->CheckIntegrity();
  }
  EXPECT_EQ(tier->num_cached(), 6u);
}

// On a device, copies run beside the steps.
class DeviceHostTierTest : public testing::Test {
 protected:
  DeviceHostTierTest()
      : backend_(kernels::reference::MakeReferenceBackend()),
        arena_(*backend_.AllocateKv({.num_layers = 1, .num_kv_heads = 1, .head_dim = 8}, 64)),
        hasher_({.fingerprint = {}, .seed = 1}) {
    backend_.SetPace(0);
  }
  std::unique_ptr<HostTier> Make(uint32_t num_blocks) {
    return *HostTier::Open(num_blocks * arena_->block_bytes(), backend_, *arena_);
  }
  kv::BlockKey Key(uint32_t first) {
    std::array<TokenId, kernels::kKvBlockTokens> tokens{};
    tokens[0] = static_cast<TokenId>(first);
    return hasher_.Next(hasher_.Root(""), tokens);
  }
  void Fill(uint32_t block, uint32_t content) {
    const std::vector<std::byte> bytes(arena_->block_bytes(), static_cast<std::byte>(content));
    backend_.WriteKvBlock(*arena_, BlockId{block}, bytes);
  }
  uint32_t Content(uint32_t block) {
    std::vector<std::byte> bytes(arena_->block_bytes());
    backend_.ReadKvBlock(*arena_, BlockId{block}, bytes);
    return static_cast<uint32_t>(bytes[0]);
  }

  kernels::DeviceBackend backend_;
  std::unique_ptr<kernels::KvArena> arena_;
  kv::BlockHasher hasher_;
};

TEST_F(DeviceHostTierTest, ManyBlocksAreBegunTogetherAndAwaitedWhereTheyAreUsed) {
  const auto tier = Make(40);
  for (uint32_t i = 0; i < 20; ++i) {
    Fill(i, i + 1);
    tier->Put(Key(i), BlockId{i}, 0);
  }
  tier->BeginCopies();
  EXPECT_EQ(backend_.num_copied_beside(), 2);  // a copy of sixteen blocks, and one of the rest
  const std::vector<BlockId> first = {BlockId{3}, BlockId{4}};
  tier->Await(first);  // as before a step that writes these blocks
  Fill(3, 99);
  Fill(4, 99);
  std::vector<kv::BlockKey> keys;
  std::vector<BlockId> blocks;
  for (uint32_t i = 0; i < 20; ++i) {
    keys.push_back(Key(i));
    blocks.push_back(BlockId{40 + i});
  }
  EXPECT_NE(tier->Restore(tier->Match(keys), blocks), 0u);
  EXPECT_EQ(tier->bytes_restoring(), 20 * arena_->block_bytes());
  EXPECT_NE(tier->TicketOf(blocks), 0u);
  EXPECT_EQ(tier->TicketOf(first), 0u);
  backend_.WaitForCopy(tier->TicketOf(blocks));
  EXPECT_EQ(tier->TicketOf(blocks), 0u);
  EXPECT_EQ(tier->bytes_restoring(), 0u);
  for (uint32_t i = 0; i < 20; ++i) EXPECT_EQ(Content(40 + i), i + 1) << i;
  tier->CheckIntegrity();
}

TEST_F(DeviceHostTierTest, ASlotThatIsLostBeforeItsCopyBeganIsNotCopiedTo) {
  const auto tier = Make(2);
  for (uint32_t i = 0; i < 6; ++i) {
    Fill(i, i + 1);
    tier->Put(Key(i), BlockId{i}, 0);
  }
  tier->BeginCopies();
  for (const uint32_t kept : {4u, 5u}) {
    const kv::BlockKey key = Key(kept);
    const BlockId block{10 + kept};
    tier->Restore(tier->Match({&key, 1}), {&block, 1});
    tier->Await({&block, 1});
    EXPECT_EQ(Content(block.value), kept + 1);
  }
  tier->CheckIntegrity();
}

TEST_F(DeviceHostTierTest, SlotsAreUsedAsTheirMemoryIsLocked) {
  backend_.SetHostBytes(3 * arena_->block_bytes());
  const auto tier =
      *HostTier::Open(8 * arena_->block_bytes(), backend_, *arena_, arena_->block_bytes());
  EXPECT_TRUE(test::WaitUntil([&] { return tier->num_blocks() == 3; }, "it has all it can have"));
  for (uint32_t i = 0; i < 8; ++i) {
    tier->Put(Key(i), BlockId{i}, 0);
    tier->BeginCopies();
  }
  EXPECT_EQ(tier->num_cached(), 3u);
  tier->CheckIntegrity();
}

TEST_F(DeviceHostTierTest, ItsSpeedIsMeasuredBeforeItIsUsed) {
  EXPECT_GT(Make(4)->MeasureBytesPerSecond(), 0);
  const auto host = kernels::reference::MakeReferenceBackend();
  const auto arena = *host->AllocateKv(arena_->shape(), 8);
  EXPECT_EQ((*HostTier::Open(4 * arena->block_bytes(), *host, *arena))->MeasureBytesPerSecond(), 0);
}

}  // namespace
}  // namespace kvgate::tier
