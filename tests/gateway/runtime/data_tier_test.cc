#include "gateway/runtime/data_tier.h"

#include <gtest/gtest.h>

#include "gateway/local/maintenance.h"
#include "tests/store/store_fixture.h"

namespace kvgate::runtime {
namespace {

config::Config ConfigFor(const TempFolder& temporary) {
  config::Config config;
  config.store.data_dir = (temporary.path() / "data").string();
  return config;
}

TEST(DataTierTest, TheConfiguredDirectoryGoesBeforeTheDefaultOne) {
  config::Config config;
  EXPECT_EQ(DataDirOf(config), config::DefaultDataDir());
  config.store.data_dir = "/elsewhere";
  EXPECT_EQ(DataDirOf(config), "/elsewhere");
}

TEST(DataTierTest, WithoutADiskItSaysWhy) {
  config::Config config;
  config.store.disk = false;
  const DataTier tier = OpenDataTier(config);
  EXPECT_EQ(tier.directory, nullptr);
  EXPECT_EQ(tier.reason, "store.disk is false");
  EXPECT_EQ(tier.kv(), nullptr);
  EXPECT_EQ(tier.pins(), nullptr);
  EXPECT_EQ(tier.meta(), nullptr);
  EXPECT_EQ(tier.keyring(), nullptr);
  EXPECT_EQ(tier.hash_seed(), 0u);
}

TEST(DataTierTest, ADirectoryIsHeldByOneAtATime) {
  const TempFolder temporary;
  const config::Config config = ConfigFor(temporary);
  const DataTier first = OpenDataTier(config);
  ASSERT_NE(first.directory, nullptr) << first.reason;
  EXPECT_NE(first.kv(), nullptr);
  EXPECT_NE(first.keyring(), nullptr);
  const DataTier second = OpenDataTier(config);
  EXPECT_EQ(second.directory, nullptr);
  EXPECT_FALSE(second.reason.empty());
}

TEST(DataTierTest, TheWriteBudgetAndTheSeedSurvive) {
  const TempFolder temporary;
  config::Config config = ConfigFor(temporary);
  config.store.write_budget_bytes = uint64_t{1} << 40;
  uint64_t seed = 0;
  {
    const DataTier tier = OpenDataTier(config);
    ASSERT_NE(tier.directory, nullptr) << tier.reason;
    seed = tier.hash_seed();
    ASSERT_TRUE(tier.write_admission->Admit(5000, tier::WritePriority::kCommon));
    local::SaveWriteBudget(*tier.meta(), tier.write_admission->state());
  }
  const DataTier again = OpenDataTier(config);
  EXPECT_EQ(again.hash_seed(), seed);
  EXPECT_EQ(again.write_admission->stats().spent_bytes, 5000u);
}

}  // namespace
}  // namespace kvgate::runtime
