#include "gateway/prompt/history/tenant_memory.h"

#include <gtest/gtest.h>

namespace kvgate::prompt::history {

using parse::Identity;

namespace {

Identity Key(uint64_t i) { return {i, i}; }
std::shared_ptr<const std::string> Text(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

TEST(TenantMemory, TheFirstBytesStayAndScopesShareNothing) {
  TenantMemory memory(1 << 20);
  const auto scope = TenantMemory::ScopeOf("a", "up");
  memory.KeepBytes(scope, Key(1), Text("first"));
  memory.KeepBytes(scope, Key(1), Text("second"));
  EXPECT_EQ(*memory.FindBytes(scope, Key(1)), "first");
  EXPECT_EQ(memory.FindBytes(TenantMemory::ScopeOf("b", "up"), Key(1)), nullptr);
  EXPECT_EQ(memory.FindBytes(TenantMemory::ScopeOf("a", "other"), Key(1)), nullptr);
}

TEST(TenantMemory, TheLargestOrderThatIsContainedIsFound) {
  TenantMemory memory(1 << 20);
  const auto scope = TenantMemory::ScopeOf("a", "up");
  memory.KeepOrder(scope, {Key(2), Key(1)});
  memory.KeepOrder(scope, {Key(3), Key(2), Key(1)});
  memory.KeepOrder(scope, {Key(4), Key(9)});
  const std::vector<Identity> tools = {Key(1), Key(2), Key(3), Key(4)};
  EXPECT_EQ(memory.FindOrder(scope, tools), (std::vector<Identity>{Key(3), Key(2), Key(1)}));
  const std::vector<Identity> other = {Key(7)};
  EXPECT_TRUE(memory.FindOrder(scope, other).empty());
}

TEST(TenantMemory, ItIsBoundedAndKeepsWhatIsAskedFor) {
  TenantMemory memory(100'000);
  const auto scope = TenantMemory::ScopeOf("a", "up");
  memory.KeepBytes(scope, Key(0), Text("kept"));
  memory.KeepBytes(scope, Key(1), Text("forgotten"));
  for (uint64_t i = 2; i < 1000; ++i) {
    memory.KeepBytes(scope, Key(i), Text(std::string(1000, 'x')));
    ASSERT_NE(memory.FindBytes(scope, Key(0)), nullptr) << i;
  }
  EXPECT_EQ(memory.FindBytes(scope, Key(1)), nullptr);
}

TEST(TenantMemory, WhatIsOnlyLookedAtIsNotUsed) {
  TenantMemory memory(100'000);
  const auto scope = TenantMemory::ScopeOf("a", "up");
  memory.KeepBytes(scope, Key(0), Text("looked at"));
  EXPECT_EQ(*memory.PeekBytes(scope, Key(0)), "looked at");
  EXPECT_EQ(memory.PeekBytes(TenantMemory::ScopeOf("b", "up"), Key(0)), nullptr);
  for (uint64_t i = 1; i < 1000; ++i) {
    memory.KeepBytes(scope, Key(i), Text(std::string(1000, 'x')));
    (void)memory.PeekBytes(scope, Key(0));
  }
  EXPECT_EQ(memory.PeekBytes(scope, Key(0)), nullptr);
}

TEST(TenantMemory, WhoHasMoreThanHalfMakesRoomAndOthersKeepTheirs) {
  TenantMemory memory(100'000);
  const auto small = TenantMemory::ScopeOf("small", "up");
  const auto large = TenantMemory::ScopeOf("large", "up");
  for (uint64_t i = 0; i < 10; ++i) memory.KeepBytes(small, Key(i), Text("small"));
  memory.KeepOrder(small, {Key(1), Key(2)});
  for (uint64_t i = 0; i < 1000; ++i) {
    memory.KeepBytes(large, Key(i), Text(std::string(1000 + i, 'x')));
    memory.KeepOrder(large, {Key(i), Key(i + 1)});
  }
  memory.KeepBytes(large, Key(5000), Text(std::string(200'000, 'x')));
  EXPECT_EQ(memory.FindBytes(large, Key(5000)), nullptr);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_NE(memory.FindBytes(small, Key(i)), nullptr) << i;
  const std::vector<Identity> tools = {Key(1), Key(2), Key(3)};
  EXPECT_EQ(memory.FindOrder(small, tools), (std::vector<Identity>{Key(1), Key(2)}));
  // The latest of very many scopes are known.
  for (uint64_t i = 0; i < 1000; ++i) {
    const auto scope = TenantMemory::ScopeOf(std::to_string(i), "up");
    memory.KeepBytes(scope, Key(1), Text(std::string(500, 'x')));
    memory.KeepOrder(scope, {Key(1), Key(2)});
    ASSERT_NE(memory.FindBytes(scope, Key(1)), nullptr) << i;
  }
}

TEST(TenantMemory, WhatAnotherProcessKnewTakesItsRoomOnce) {
  TenantMemory before(1 << 20);
  before.TakeNew();
  const auto scope = TenantMemory::ScopeOf("a", "up");
  for (uint64_t i = 0; i < 4; ++i) before.KeepBytes(scope, Key(i), Text(std::string(20'000, 'x')));
  TenantMemory memory(100'000);
  for (TenantMemory::Row& row : before.TakeNew()) memory.Restore(std::move(row));
  for (int round = 0; round < 2; ++round) {
    for (uint64_t i = 0; i < 4; ++i) EXPECT_NE(memory.FindBytes(scope, Key(i)), nullptr) << i;
  }
}

TEST(TenantMemory, WhatAnotherProcessKnewIsFoundByItsOwnScopeAlone) {
  TenantMemory before(1 << 20);
  before.TakeNew();
  const auto scope = TenantMemory::ScopeOf("a", "up");
  before.KeepBytes(scope, Key(1), Text("first"));
  TenantMemory memory(100'000);
  for (TenantMemory::Row& row : before.TakeNew()) memory.Restore(std::move(row));
  EXPECT_EQ(memory.FindBytes(TenantMemory::ScopeOf("b", "up"), Key(1)), nullptr);
  memory.KeepBytes(scope, Key(1), Text("second"));
  EXPECT_EQ(*memory.FindBytes(scope, Key(1)), "first");
  // The bytes belong to that scope from here on, whatever happens to restored ones that nobody asks
  // for.
  for (uint64_t i = 0; i < 1000; ++i) {
    memory.Restore({.key = Key(i), .bytes = Text(std::string(1000, 'x'))});
  }
  EXPECT_EQ(*memory.FindBytes(scope, Key(1)), "first");
}

}  // namespace
}  // namespace kvgate::prompt::history
