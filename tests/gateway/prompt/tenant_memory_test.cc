#include "gateway/prompt/tenant_memory.h"

#include <gtest/gtest.h>

namespace kvgate::prompt {
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

}  // namespace
}  // namespace kvgate::prompt
