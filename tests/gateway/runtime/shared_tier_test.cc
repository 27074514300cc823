#include "gateway/runtime/shared_tier.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace kvgate::runtime {
namespace {

constexpr const char* kVariable = "KVGATE_SHARED_TIER_TEST";

config::Config Shared(std::string url) {
  config::Config config;
  config.store.shared = std::move(url);
  return config;
}

class SharedTierTest : public testing::Test {
 protected:
  ~SharedTierTest() override { unsetenv(kVariable); }
  const std::unique_ptr<Keyring> ring_ = Keyring::Generate();
};

TEST_F(SharedTierTest, WithoutAUrlThereIsNone) {
  const auto opened = SharedTier::Open({}, ring_.get());
  ASSERT_TRUE(opened);
  EXPECT_EQ(*opened, nullptr);
}

TEST_F(SharedTierTest, NothingIsAskedBeforeTheFirstUse) {
  const auto opened = SharedTier::Open(Shared("redis://127.0.0.1:1"), ring_.get());
  ASSERT_TRUE(opened) << opened.error().ToString();
  EXPECT_FALSE((*opened)->blocks().is_paused());
  EXPECT_EQ((*opened)->blocks().ClientStats().num_calls, 0u);
  EXPECT_NE((*opened)->write_admission(), nullptr);
}

TEST_F(SharedTierTest, WhatCannotBeUsedIsRefusedByItsKey) {
  EXPECT_EQ(SharedTier::Open(Shared("http://host"), ring_.get()).error().field, "store.shared");
  config::Config config = Shared("redis://127.0.0.1:1");
  config.store.shared_password_env = kVariable;
  EXPECT_EQ(SharedTier::Open(config, ring_.get()).error().field, "store.shared_password_env");
  setenv(kVariable, "the password", 1);
  EXPECT_TRUE(SharedTier::Open(config, ring_.get()));
  EXPECT_EQ(ToRespOptions(config.store)->password, "the password");
}

TEST_F(SharedTierTest, AUrlIsCheckedWithoutItsEnvironment) {
  EXPECT_TRUE(CheckShared({}));
  config::Config config = Shared("redis://127.0.0.1:1");
  config.store.shared_password_env = kVariable;
  EXPECT_TRUE(CheckShared(config.store));
  EXPECT_EQ(CheckShared(Shared("redis://user:secret@host").store).error().field, "store.shared");
}

TEST_F(SharedTierTest, WithoutADirectoryTheSecretIsThatOfTheEnvironment) {
  config::Config config = Shared("redis://127.0.0.1:1");
  EXPECT_EQ(SharedTier::Open(config, nullptr).error().field, "store.secret_env");
  config.store.secret_env = kVariable;
  setenv(kVariable, Keyring::GenerateSecret().c_str(), 1);
  EXPECT_TRUE(SharedTier::Open(config, nullptr));
}

}  // namespace
}  // namespace kvgate::runtime
