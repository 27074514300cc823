#include "gateway/session/prompts/recent_uses.h"

#include <gtest/gtest.h>

namespace kvgate::session::prompts {
namespace {

TEST(RecentUsesTest, AUseIsRecentForAsLongAsProvidersKeepIt) {
  RecentUses uses;
  const PromptName id = {.name = "a", .version = "1"};
  constexpr int64_t kNow = 1'000'000'000;
  EXPECT_FALSE(uses.Note("t", id, "m", kNow));
  EXPECT_TRUE(uses.Note("t", id, "m", kNow + RecentUses::kRecentUs - 1));
  EXPECT_TRUE(uses.Note("t", id, "m", kNow + 2 * RecentUses::kRecentUs - 2)) << "each use counts";
  EXPECT_FALSE(uses.Note("t", id, "m", kNow + 3 * RecentUses::kRecentUs));
}

TEST(RecentUsesTest, TenantsVersionsAndModelsAreApart) {
  RecentUses uses;
  uses.Note("t", {.name = "a", .version = "1"}, "m", 1);
  EXPECT_FALSE(uses.Note("u", {.name = "a", .version = "1"}, "m", 2));
  EXPECT_FALSE(uses.Note("t", {.name = "a", .version = "2"}, "m", 2));
  EXPECT_FALSE(uses.Note("t", {.name = "a", .version = "1"}, "n", 2));
  EXPECT_TRUE(uses.Note("t", {.name = "a", .version = "1"}, "m", 2));
}

}  // namespace
}  // namespace kvgate::session::prompts
