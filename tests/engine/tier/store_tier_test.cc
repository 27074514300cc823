#include "engine/tier/store_tier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>

#include "kernels/reference/reference_backend.h"
#include "tests/engine/device_backend.h"
#include "tests/engine/memory_kv_store.h"
#include "tests/manual_clock.h"
#include "tests/wait_until.h"

namespace kvgate::tier {
namespace {

constexpr std::chrono::seconds kPatience(30);  // only a test that fails waits that long

class StoreTierTest : public testing::Test {
 protected:
  StoreTierTest()
      : backend_(kernels::reference::MakeReferenceBackend()),
        arena_(*backend_->AllocateKv({.num_layers = 1, .num_kv_heads = 1, .head_dim = 8}, 32)),
        hasher_({.fingerprint = {}, .seed = 1}) {}

  std::unique_ptr<StoreTier> MakeTier(uint64_t write_bytes_max = uint64_t{1} << 20) {
    return std::make_unique<StoreTier>(
        StoreTier::Options{.fingerprint = {.low = 5, .high = 6},
                           .groups = {{.arena = arena_.get(), .shape_tag = 9}},
                           .write_bytes_max = write_bytes_max,
                           .load_threads = 2,
                           .on_completion = [this](Completion completion) { OnDone(completion); }},
        store_, *backend_);
  }
  void OnDone(const Completion& completion) {
    const std::lock_guard lock(mutex_);
    done_[completion.ticket] = completion;
    changed_.notify_all();
  }
  Completion WaitFor(uint64_t ticket) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return done_.contains(ticket); }))
        << "nothing completes " << ticket;
    return done_[ticket];
  }
  // Loads and writes number their tickets separately, so no test may have both under way.
  Completion WaitForLoad(uint64_t ticket) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(
        lock, kPatience,
        [&] { return done_.contains(ticket) && done_[ticket].kind == Completion::Kind::kLoad; }))
        << "nothing completes load " << ticket;
    return done_[ticket];
  }
  bool IsDone(uint64_t ticket) {
    const std::lock_guard lock(mutex_);
    return done_.contains(ticket);
  }
  // Writes `count` blocks and returns loads of them into other blocks, from block 16 on.
  std::vector<LoadItem> Written(StoreTier& tier, int count) {
    EXPECT_TRUE(tier.Write(1000, Items(count)));
    WaitFor(1000);
    std::vector<LoadItem> loads;
    for (int i = 0; i < count; ++i) {
      loads.push_back({.key = Key(i), .block = BlockId{static_cast<uint32_t>(16 + i)}});
    }
    return loads;
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

TEST_F(StoreTierTest, WhatIsWrittenComesBackBitForBitInOtherBlocks) {
  const auto tier = MakeTier();
  ASSERT_TRUE(tier->Write(1, Items(12)));
  EXPECT_EQ(WaitFor(1).num_ok, 12u);
  std::vector<LoadItem> loads;
  for (int i = 0; i < 12; ++i) {
    EXPECT_TRUE(tier->Contains(Key(i)));
    loads.push_back({.key = Key(i), .block = BlockId{static_cast<uint32_t>(16 + i)}});
  }
  EXPECT_EQ(WaitForLoad(tier->Load(loads)).num_ok, 12u);
  for (uint32_t i = 0; i < 12; ++i) EXPECT_TRUE(Holds(16 + i, static_cast<uint8_t>(i + 1)));
}

TEST_F(StoreTierTest, GroupsAreKeptApartUnderOneKey) {
  const auto window_arena =
      *backend_->AllocateKv({.num_layers = 3, .num_kv_heads = 1, .head_dim = 8}, 8);
  StoreTier tier({.fingerprint = {.low = 5, .high = 6},
                  .groups = {{.arena = arena_.get(), .shape_tag = 9},
                             {.arena = window_arena.get(), .shape_tag = 10}},
                  .on_completion = [this](Completion completion) { OnDone(completion); }},
                 store_, *backend_);
  const std::vector<std::byte> bytes(window_arena->block_bytes(), std::byte{77});
  backend_->WriteKvBlock(*window_arena, BlockId{2}, bytes);
  std::vector<WriteItem> items = Items(1);
  items.push_back(
      {.key = Key(0), .parent = Key(0).hash, .depth = 1, .block = BlockId{2}, .group = 1});
  ASSERT_TRUE(tier.Write(1000, std::move(items)));
  EXPECT_EQ(WaitFor(1000).num_ok, 2u);
  EXPECT_EQ(tier.write_bytes_queued(), 0u);
  EXPECT_TRUE(tier.Contains(Key(0), 1));
  EXPECT_FALSE(tier.Contains(Key(0), 2));
  const uint64_t ticket = tier.Load(
      {{.key = Key(0), .block = BlockId{5}, .group = 1}, {.key = Key(0), .block = BlockId{16}}});
  EXPECT_EQ(WaitForLoad(ticket).num_ok, 2u);
  EXPECT_TRUE(Holds(16, 1));
  std::vector<std::byte> loaded(window_arena->block_bytes());
  backend_->ReadKvBlock(*window_arena, BlockId{5}, loaded);
  EXPECT_EQ(loaded, bytes);
}

TEST_F(StoreTierTest, ALoadCountsOnlyTheItemsBeforeTheFirstFailure) {
  const auto tier = MakeTier();
  ASSERT_TRUE(tier->Write(1, Items(6)));
  WaitFor(1);
  store_.fail_gets_from_depth = 4;
  std::vector<LoadItem> loads;
  for (int i = 0; i < 6; ++i) {
    loads.push_back({.key = Key(i), .block = BlockId{static_cast<uint32_t>(16 + i)}});
  }
  EXPECT_EQ(WaitForLoad(tier->Load(loads)).num_ok, 4u);
}

TEST_F(StoreTierTest, AnotherPrefixUnderTheSameHashIsAMiss) {
  const auto tier = MakeTier();
  ASSERT_TRUE(tier->Write(1, Items(1)));
  WaitFor(1);
  kv::BlockKey forged = Key(0);
  forged.digest.bytes[31] ^= 1;
  EXPECT_TRUE(tier->Contains(forged));
  EXPECT_EQ(WaitForLoad(tier->Load({{.key = forged, .block = BlockId{20}}})).num_ok, 0u);
}

TEST_F(StoreTierTest, WritesBeyondTheBoundAreRefusedAndTheQueueDrains) {
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

TEST_F(StoreTierTest, AFailingStoreEndsTheJobAndTheWorkerLivesOn) {
  const auto tier = MakeTier();
  store_.fail_put = true;
  ASSERT_TRUE(tier->Write(1, Items(3)));
  EXPECT_EQ(WaitFor(1).num_ok, 0u);
  store_.fail_put = false;
  ASSERT_TRUE(tier->Write(2, Items(3)));
  EXPECT_EQ(WaitFor(2).num_ok, 3u);
}

TEST_F(StoreTierTest, ALoadGivenUpBeginsNothingMoreAndCompletesWhenItsReadersAreDone) {
  const auto tier = MakeTier();
  const std::vector<LoadItem> loads = Written(*tier, 16);
  store_.get_delay_ms = 50;
  const uint64_t ticket = tier->Load(loads);
  ASSERT_TRUE(test::WaitUntil([&] { return tier->NumLoaded(ticket) >= 2; }, "two were loaded"));
  const StoreTier::GivenUp given_up = tier->GiveUp(ticket);
  EXPECT_GE(given_up.num_ok, 2u);
  EXPECT_LE(given_up.num_begun, given_up.num_ok + 2);  // there are two readers
  EXPECT_LT(given_up.num_begun, 16u);
  ASSERT_TRUE(given_up.completes);
  EXPECT_GE(WaitForLoad(ticket).num_ok, given_up.num_ok);
  EXPECT_EQ(tier->load_bytes_queued(), 0u);
  for (uint32_t i = 0; i < given_up.num_ok; ++i) {
    EXPECT_TRUE(Holds(16 + i, static_cast<uint8_t>(i + 1)));
  }
}

TEST_F(StoreTierTest, ALoadGivenUpBeforeItBeganHasNoCompletion) {
  const auto tier = MakeTier();
  const std::vector<LoadItem> loads = Written(*tier, 8);
  store_.get_delay_ms = 30;
  const uint64_t first = tier->Load(loads);
  const uint64_t second = tier->Load(loads);
  const StoreTier::GivenUp given_up = tier->GiveUp(second);
  EXPECT_EQ(given_up.num_begun, 0u);
  EXPECT_FALSE(given_up.completes);
  EXPECT_EQ(WaitForLoad(first).num_ok, 8u);
  ASSERT_TRUE(tier->Flush().has_value());
  EXPECT_FALSE(IsDone(second));
}

TEST_F(StoreTierTest, TheSpeedOfLoadsIsMeasured) {
  const auto tier = MakeTier();
  const std::vector<LoadItem> loads = Written(*tier, 10);
  EXPECT_EQ(tier->load_speed().bytes_per_second, 0);
  const test::ManualClock clock;
  store_.get_takes_us = 20'000;
  WaitForLoad(tier->Load(loads));
  // Both readers let the one clock pass 20 ms per block, so at most 100 blocks a second, plus those
  // under way when old samples are dropped.
  const auto per_block = static_cast<double>(arena_->block_bytes());
  EXPECT_LT(tier->load_speed().bytes_per_second, 130 * per_block);
  EXPECT_GT(tier->load_speed().bytes_per_second, 20 * per_block);
  // When the disk recovers, a probe finds out, and no request waits for it.
  store_.get_takes_us = 100;
  test::ManualClock::Advance(std::chrono::milliseconds(2100));  // old measurements are forgotten
  tier->Probe({&loads[0].key, 1});
  ASSERT_TRUE(tier->Flush().has_value());
  EXPECT_GT(tier->load_speed().bytes_per_second, 200 * per_block);
}

// A slow first read (a cold file, a thread that was never woken) says little about bandwidth:
// counting it would turn a disk of 200 MB/s into one of 0.3 MB/s.
TEST_F(StoreTierTest, TheLatencyOfTheFirstReadIsNotTakenForBandwidth) {
  const auto tier = MakeTier();
  const std::vector<LoadItem> loads = Written(*tier, 16);
  const auto per_block = static_cast<double>(arena_->block_bytes());
  store_.first_get_delay_ms = 60;
  WaitForLoad(tier->Load(loads));
  const StoreTier::LoadSpeed speed = tier->load_speed();
  EXPECT_FALSE(speed.is_guess);
  EXPECT_GT(speed.bytes_per_second, 1000 * per_block);  // 16 blocks in 60 ms would be 267
}

TEST_F(StoreTierTest, ALoadGivenUpBeforeItsFirstRecordIsMeasuredOn) {
  const auto tier = MakeTier();
  const std::vector<LoadItem> loads = Written(*tier, 16);
  const auto per_block = static_cast<double>(arena_->block_bytes());
  const test::ManualClock clock;
  store_.holds_gets = true;
  const uint64_t ticket = tier->Load({loads.begin(), loads.begin() + 1});
  ASSERT_TRUE(test::WaitUntil([&] { return store_.num_gets_held == 1; }, "the reader reads"));
  test::ManualClock::Advance(std::chrono::milliseconds(30));
  tier->GiveUp(ticket);
  EXPECT_TRUE(tier->load_speed().is_guess);
  EXPECT_LT(tier->load_speed().bytes_per_second, 40 * per_block);
  test::ManualClock::Advance(std::chrono::milliseconds(30));
  store_.get_takes_us = 50;
  store_.holds_gets = false;
  WaitForLoad(ticket);
  std::vector<kv::BlockKey> keys;
  for (const LoadItem& item : loads) keys.push_back(item.key);
  tier->Probe(keys);
  ASSERT_TRUE(tier->Flush().has_value());
  EXPECT_FALSE(tier->load_speed().is_guess);
  EXPECT_GT(tier->load_speed().bytes_per_second, 1000 * per_block);
}

TEST_F(StoreTierTest, AReaderThatHangsCountsAsSlow) {
  const auto tier = MakeTier();
  const std::vector<LoadItem> loads = Written(*tier, 4);
  const test::ManualClock clock;
  store_.holds_gets = true;
  const uint64_t ticket = tier->Load(loads);
  ASSERT_TRUE(test::WaitUntil([&] { return store_.num_gets_held == 2; }, "both readers read"));
  test::ManualClock::Advance(std::chrono::milliseconds(100));
  EXPECT_EQ(tier->GiveUp(ticket).num_ok, 0u);
  EXPECT_GT(tier->load_speed().bytes_per_second, 0);
  EXPECT_LT(tier->load_speed().bytes_per_second, 40 * static_cast<double>(arena_->block_bytes()));
  store_.holds_gets = false;
  WaitForLoad(ticket);
}

TEST_F(StoreTierTest, DestructionFinishesWhatIsQueued) {
  auto tier = MakeTier();
  store_.put_delay_ms = 5;
  for (uint64_t ticket = 1; ticket <= 5; ++ticket) ASSERT_TRUE(tier->Write(ticket, Items(2)));
  tier.reset();
  EXPECT_EQ(done_.size(), 5u);
}

// The arena is not host memory: records pass through page-locked staging, or through ordinary
// memory if the system locks none.
TEST_F(StoreTierTest, ADevicesBlocksGoOutAndComeBackAndADamagedOneTouchesNothing) {
  for (const uint64_t host_bytes : {UINT64_MAX, uint64_t{0}}) {
    kernels::DeviceBackend device(kernels::reference::MakeReferenceBackend());
    device.SetHostBytes(host_bytes);
    const auto arena = *device.AllocateKv(arena_->shape(), 32);
    const auto fill = [&](uint32_t block, uint8_t byte) {
      device.WriteKvBlock(*arena, BlockId{block},
                          std::vector<std::byte>(arena->block_bytes(), std::byte{byte}));
    };
    const auto holds = [&](uint32_t block, uint8_t byte) {
      std::vector<std::byte> bytes(arena->block_bytes());
      device.ReadKvBlock(*arena, BlockId{block}, bytes);
      return std::ranges::all_of(bytes, [&](std::byte b) { return b == std::byte{byte}; });
    };
    store::MemoryKvStore store;
    done_.clear();
    StoreTier tier({.fingerprint = {.low = 5, .high = 6},
                    .groups = {{.arena = arena.get(), .shape_tag = 9}},
                    .on_completion = [this](Completion completion) { OnDone(completion); }},
                   store, device);
    std::vector<LoadItem> loads;
    for (uint32_t i = 0; i < 12; ++i) {
      fill(i, static_cast<uint8_t>(i + 1));
      fill(16 + i, 77);
      loads.push_back({.key = Key(static_cast<TokenId>(i)), .block = BlockId{16 + i}});
    }
    ASSERT_TRUE(tier.Write(1000, Items(12)));
    EXPECT_EQ(WaitFor(1000).num_ok, 12u);
    store.fail_gets_from_depth = 9;
    EXPECT_EQ(WaitForLoad(tier.Load(loads)).num_ok, 9u);
    for (uint32_t i = 0; i < 12; ++i) {
      EXPECT_TRUE(holds(16 + i, i < 9 ? static_cast<uint8_t>(i + 1) : uint8_t{77})) << i;
    }
  }
}

}  // namespace
}  // namespace kvgate::tier
