#include "gateway/service/prompt_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "store/file/sealed_kinds.h"
#include "tests/store/memory_meta_store.h"
#include "tests/store/shared/memory_client.h"
#include "tests/wait_until.h"

namespace kvgate::service {
namespace {

using prompt::history::TenantMemory;
using prompt::parse::Identity;
using store::MemoryMetaStore;
using store::meta::MetaTable;

constexpr size_t kMemoryBytes = size_t{4} << 20;
constexpr std::chrono::milliseconds kWriteInterval{5};
constexpr Identity kTool{.low = 1, .high = 2};
constexpr Identity kOther{.low = 3, .high = 4};

std::shared_ptr<const std::string> Bytes(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

class PromptStoreTest : public testing::Test {
 protected:
  std::unique_ptr<PromptStore> Open(TenantMemory& tenants, uint64_t bytes_max = 1 << 20) {
    return Open(tenants, meta_, nullptr, bytes_max);
  }
  std::unique_ptr<PromptStore> Open(TenantMemory& tenants, MemoryMetaStore& meta,
                                    store::shared::SharedFeed* shared,
                                    uint64_t bytes_max = 1 << 20) {
    return std::make_unique<PromptStore>(
        PromptStore::Options{.meta = meta,
                             .tenants = tenants,
                             .shared = shared,
                             .retention = std::chrono::hours(1),
                             .bytes_max = bytes_max,
                             .write_interval = kWriteInterval,
                             .now_us = [this] { return now_us_; }});
  }
  std::vector<std::string> Keys() const {
    std::vector<std::string> keys;
    EXPECT_TRUE(meta_.Scan(MetaTable::kPrefixes, "", [&](std::string_view key, std::string_view) {
      keys.emplace_back(key);
      return true;
    }));
    return keys;
  }

  MemoryMetaStore meta_;
  int64_t now_us_ = 1'000'000'000'000;
  const TenantMemory::Scope scope_ = TenantMemory::ScopeOf("t", "up");
};

TEST_F(PromptStoreTest, AnotherProcessKnowsWhatTheFirstOneSent) {
  {
    TenantMemory tenants(kMemoryBytes);
    const auto kept = Open(tenants);
    tenants.KeepBytes(scope_, kTool, Bytes("{\"b\":1,\"a\":2}"));
    tenants.KeepOrder(scope_, {kOther, kTool});
    tenants.KeepOrder(scope_, {kTool});
  }
  TenantMemory tenants(kMemoryBytes);
  const auto kept = Open(tenants);
  const auto bytes = tenants.FindBytes(scope_, kTool);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(*bytes, "{\"b\":1,\"a\":2}");
  const std::vector<Identity> tools = {kTool, kOther};
  EXPECT_EQ(tenants.FindOrder(scope_, tools), (std::vector<Identity>{kOther, kTool}));
  EXPECT_FALSE(tenants.FindBytes(TenantMemory::ScopeOf("u", "up"), kTool));
}

TEST_F(PromptStoreTest, WhatThereIsNoMemoryToWriteIsWrittenLater) {
  {
    TenantMemory tenants(kMemoryBytes);
    meta_.has_no_memory = true;
    const auto kept = Open(tenants);
    tenants.KeepBytes(scope_, kTool, Bytes("x"));
    EXPECT_TRUE(test::WaitUntil([&] { return meta_.num_refused > 0; }, "a write is tried"));
    EXPECT_TRUE(Keys().empty());
    meta_.has_no_memory = false;
  }
  TenantMemory tenants(kMemoryBytes);
  const auto kept = Open(tenants);
  EXPECT_EQ(*tenants.FindBytes(scope_, kTool), "x");
  meta_.has_no_memory = true;
  // The store closes without memory, which loses this entry and no more.
  tenants.KeepBytes(scope_, kOther, Bytes("y"));
}

TEST_F(PromptStoreTest, WhatIsReadIsNotWrittenAgain) {
  {
    TenantMemory tenants(kMemoryBytes);
    const auto kept = Open(tenants);
    tenants.KeepBytes(scope_, kTool, Bytes("x"));
  }
  const int written = meta_.num_batches;
  {
    TenantMemory tenants(kMemoryBytes);
    const auto kept = Open(tenants);
    tenants.KeepBytes(scope_, kTool, Bytes("x"));
  }
  EXPECT_EQ(meta_.num_batches, written);
}

TEST_F(PromptStoreTest, DamagedAndOldRowsAreDropped) {
  {
    TenantMemory tenants(kMemoryBytes);
    const auto kept = Open(tenants);
    tenants.KeepBytes(scope_, kTool, Bytes("tool"));
    tenants.KeepBytes(scope_, kOther, Bytes("other"));
  }
  ASSERT_EQ(Keys().size(), 2);
  std::string value = **meta_.Get(MetaTable::kPrefixes, Keys()[0]);
  value.back() ^= 1;
  ASSERT_TRUE(meta_.Put(MetaTable::kPrefixes, Keys()[0], value));
  {
    TenantMemory tenants(kMemoryBytes);
    const auto kept = Open(tenants);
    EXPECT_NE(tenants.FindBytes(scope_, kTool) == nullptr,
              tenants.FindBytes(scope_, kOther) == nullptr);
    EXPECT_EQ(Keys().size(), 1);
  }
  now_us_ += 3'601'000'000;
  TenantMemory tenants(kMemoryBytes);
  const auto kept = Open(tenants);
  EXPECT_FALSE(tenants.FindBytes(scope_, kOther));
  EXPECT_TRUE(Keys().empty());
}

TEST_F(PromptStoreTest, TheOldestGoBeyondItsBytes) {
  for (uint64_t i = 0; i < 10; ++i) {
    TenantMemory tenants(kMemoryBytes);
    const auto kept = Open(tenants, 5000);
    now_us_ += 1'000'000;
    tenants.KeepBytes(scope_, {.low = i, .high = 9}, Bytes(std::string(1000, 'x')));
  }
  EXPECT_EQ(Keys().size(), 4);
  TenantMemory tenants(kMemoryBytes);
  const auto kept = Open(tenants, 5000);
  EXPECT_FALSE(tenants.FindBytes(scope_, {.low = 5, .high = 9}));
  EXPECT_TRUE(tenants.FindBytes(scope_, {.low = 6, .high = 9}));
}

TEST_F(PromptStoreTest, AScopeThatHasMoreThanHalfMakesRoomItself) {
  const TenantMemory::Scope other = TenantMemory::ScopeOf("u", "up");
  {
    TenantMemory tenants(kMemoryBytes);
    const auto kept = Open(tenants, 5000);
    tenants.KeepBytes(other, kTool, Bytes(std::string(1000, 'y')));
  }
  for (uint64_t i = 0; i < 10; ++i) {
    TenantMemory tenants(kMemoryBytes);
    const auto kept = Open(tenants, 5000);
    now_us_ += 1'000'000;
    tenants.KeepBytes(scope_, {.low = i, .high = 9}, Bytes(std::string(1000, 'x')));
  }
  TenantMemory tenants(kMemoryBytes);
  const auto kept = Open(tenants, 5000);
  EXPECT_TRUE(tenants.FindBytes(other, kTool));
  EXPECT_FALSE(tenants.FindBytes(scope_, {.low = 6, .high = 9}));
  EXPECT_TRUE(tenants.FindBytes(scope_, {.low = 7, .high = 9}));
}

// Version 2 had the same body without the scope.
TEST_F(PromptStoreTest, ATextOfTheVersionBeforeIsFoundByTheScopeThatAsks) {
  {
    TenantMemory tenants(kMemoryBytes);
    const auto kept = Open(tenants);
    tenants.KeepBytes(scope_, kTool, Bytes("x"));
  }
  const std::string key = Keys().at(0);
  const std::string value = **meta_.Get(MetaTable::kPrefixes, key);
  const auto now = Unseal(store::file::kPromptKind, meta_.keyring(), key, value);
  ASSERT_TRUE(now);
  store::file::SealedKind before = store::file::kPromptKind;
  before.version = 2;
  const std::string body = now->body.substr(0, now->body.size() - sizeof(Identity));
  ASSERT_TRUE(meta_.Put(MetaTable::kPrefixes, key, Seal(before, meta_.keyring(), key, body)));
  TenantMemory tenants(kMemoryBytes);
  const auto kept = Open(tenants);
  EXPECT_FALSE(tenants.FindBytes(TenantMemory::ScopeOf("u", "up"), kTool));
  EXPECT_EQ(*tenants.FindBytes(scope_, kTool), "x");
}

TEST_F(PromptStoreTest, WhatADiskRefusedIsWrittenWhenItTakesItAgain) {
  TenantMemory tenants(kMemoryBytes);
  const auto kept = Open(tenants);
  meta_.refuses = true;
  tenants.KeepBytes(scope_, kTool, Bytes("tool"));
  EXPECT_TRUE(test::WaitUntil([&] { return meta_.num_refused > 0; }, "a write is tried"));
  EXPECT_TRUE(Keys().empty());
  tenants.KeepBytes(scope_, kOther, Bytes("other"));
  meta_.refuses = false;
  EXPECT_TRUE(test::WaitUntil([&] { return Keys().size() == 2; }, "both are written"));
}

TEST_F(PromptStoreTest, APurgeLeavesNothing) {
  {
    TenantMemory tenants(kMemoryBytes);
    const auto kept = Open(tenants);
    tenants.KeepBytes(scope_, kTool, Bytes("tool"));
  }
  EXPECT_EQ(Keys().size(), 1);
  EXPECT_TRUE(PromptStore::Purge(meta_));
  EXPECT_TRUE(Keys().empty());
}

// Two gateways, each with a data directory of its own, that share a store.
class SharedPromptStoreTest : public PromptStoreTest {
 protected:
  bool Knows(const TenantMemory& tenants, const Identity& same, const std::string& bytes) const {
    return test::WaitUntil(
        [&] {
          const auto found = tenants.PeekBytes(scope_, same);
          return found != nullptr && *found == bytes;
        },
        "it is heard");
  }

  store::shared::MemoryServer server_;
  store::shared::MemoryClient client_{server_};
  store::shared::MemoryClient other_client_{server_};
  const std::unique_ptr<Keyring> ring_ = Keyring::Generate();
  store::shared::SharedFeed feed_{{.name = "prompts"}, client_, *ring_};
  store::shared::SharedFeed other_feed_{{.name = "prompts"}, other_client_, *ring_};
  MemoryMetaStore other_meta_;
  TenantMemory tenants_{kMemoryBytes};
  TenantMemory others_{kMemoryBytes};
};

TEST_F(SharedPromptStoreTest, WhatOneGatewaySentFirstAllSend) {
  const auto kept = Open(tenants_, meta_, &feed_);
  const auto other = Open(others_, other_meta_, &other_feed_);
  tenants_.KeepBytes(scope_, kTool, Bytes("{\"b\":1}"));
  tenants_.KeepOrder(scope_, {kOther, kTool});
  EXPECT_TRUE(Knows(others_, kTool, "{\"b\":1}"));
  const std::vector<Identity> tools = {kTool, kOther};
  EXPECT_TRUE(
      test::WaitUntil([&] { return !others_.FindOrder(scope_, tools).empty(); }, "its order too"));
  EXPECT_EQ(others_.FindOrder(scope_, tools), (std::vector<Identity>{kOther, kTool}));
  EXPECT_FALSE(others_.FindBytes(TenantMemory::ScopeOf("u", "up"), kTool));
  others_.KeepBytes(scope_, kOther, Bytes("theirs"));
  EXPECT_TRUE(Knows(tenants_, kOther, "theirs"));
}

TEST_F(SharedPromptStoreTest, WhatIsKnownStaysAndWhatIsHeardIsNotToldAgain) {
  tenants_.KeepBytes(scope_, kTool, Bytes("mine"));
  const auto kept = Open(tenants_, meta_, &feed_);
  {
    const auto other = Open(others_, other_meta_, &other_feed_);
    others_.KeepBytes(scope_, kTool, Bytes("theirs"));
    others_.KeepBytes(scope_, kOther, Bytes("later"));
  }  // what is left is told at the end
  EXPECT_TRUE(Knows(tenants_, kOther, "later"));
  EXPECT_EQ(*tenants_.PeekBytes(scope_, kTool), "mine");
  const std::lock_guard lock(server_.mutex);
  EXPECT_EQ(server_.num_entries, 2);
}

TEST_F(SharedPromptStoreTest, AStoreThatIsAwayIsToldLater) {
  client_.is_down = true;
  const auto kept = Open(tenants_, meta_, &feed_);
  const auto other = Open(others_, other_meta_, &other_feed_);
  tenants_.KeepBytes(scope_, kTool, Bytes("x"));
  EXPECT_TRUE(test::WaitUntil([&] { return meta_.num_batches > 0; }, "it is written here"));
  EXPECT_FALSE(others_.PeekBytes(scope_, kTool));
  client_.is_down = false;
  EXPECT_TRUE(Knows(others_, kTool, "x"));
}

TEST_F(SharedPromptStoreTest, ARowOfAnotherVersionIsLeftOut) {
  const auto kept = Open(tenants_, meta_, &feed_);
  ASSERT_TRUE(other_feed_.Add(std::vector<std::string>{std::string("\x02", 1) + "Tnewer", ""}));
  const auto other = Open(others_, other_meta_, &other_feed_);
  others_.KeepBytes(scope_, kTool, Bytes("x"));
  EXPECT_TRUE(Knows(tenants_, kTool, "x"));
}

}  // namespace
}  // namespace kvgate::service
