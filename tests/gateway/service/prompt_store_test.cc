#include "gateway/service/prompt_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/gateway/ledger/memory_meta_store.h"

namespace kvgate::service {
namespace {

using prompt::Identity;
using prompt::TenantMemory;
using store::MemoryMetaStore;
using store::MetaTable;

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
    return std::make_unique<PromptStore>(
        PromptStore::Options{.meta = meta_,
                             .tenants = tenants,
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

TEST_F(PromptStoreTest, WhatADiskRefusedIsWrittenWhenItTakesItAgain) {
  TenantMemory tenants(kMemoryBytes);
  const auto kept = Open(tenants);
  meta_.refuses = true;
  tenants.KeepBytes(scope_, kTool, Bytes("tool"));
  std::this_thread::sleep_for(20 * kWriteInterval);
  EXPECT_TRUE(Keys().empty());
  tenants.KeepBytes(scope_, kOther, Bytes("other"));
  meta_.refuses = false;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (Keys().size() < 2 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kWriteInterval);
  }
  EXPECT_EQ(Keys().size(), 2);
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

}  // namespace
}  // namespace kvgate::service
