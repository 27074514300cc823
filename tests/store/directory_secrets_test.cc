#include "store/directory_secrets.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "store/meta/rocks_meta_store.h"
#include "store/meta/turn_store.h"
#include "tests/store/store_fixture.h"

namespace kvgate::store {

using file::kSecretFileName;

namespace {

constexpr const char* kVariable = "KVGATE_TEST_DIRECTORY_SECRETS";

class DirectorySecretsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    meta_ = meta::OpenRocksMetaStore({.directory = directory_.path() / "meta"}).value();
  }
  void TearDown() override { ::unsetenv(kVariable); }

  Result<void> Open(const std::string& environment = {}, bool make = true) {
    return OpenSecrets(*meta_,
                       {.directory = directory_.path(), .environment = environment, .make = make});
  }
  std::string Remembered(std::string_view key) const {
    return meta_->Get(meta::MetaTable::kDirectory, key).value().value_or("");
  }
  void Append(const std::string& id) {
    const auto turns = meta::TurnStore::Open({.meta = *meta_}).value();
    meta::Turn turn;
    turn.id = id;
    turn.items = {{.role = "user", .payload = "words"}};
    ASSERT_TRUE(turns->Append(std::move(turn)));
  }
  bool Has(const std::string& id) {
    return meta::TurnStore::Open({.meta = *meta_}).value()->Get("", id).has_value();
  }

  const TempFolder directory_;
  std::unique_ptr<meta::MetaStore> meta_;
};

TEST_F(DirectorySecretsTest, TheSecretIsTheSameAtTheNextOpening) {
  ASSERT_TRUE(Open());
  Append("one");
  const auto id = meta_->keyring().sealing_key_id();
  const std::string sealing = Remembered("sealing_secrets");
  ASSERT_TRUE(Open());
  EXPECT_EQ(meta_->keyring().sealing_key_id(), id);
  EXPECT_EQ(Remembered("sealing_secrets"), sealing);
  EXPECT_EQ(sealing.size(), 16u);
  EXPECT_TRUE(Has("one"));
}

TEST_F(DirectorySecretsTest, TheVariableIsFoundAgainByWhoNamesNone) {
  ::setenv(kVariable, Keyring::GenerateSecret().c_str(), 1);
  ASSERT_TRUE(Open(kVariable));
  Append("one");
  const auto id = meta_->keyring().sealing_key_id();
  ASSERT_TRUE(Open("", false));
  EXPECT_EQ(meta_->keyring().sealing_key_id(), id);
  ASSERT_TRUE(Open());
  EXPECT_EQ(meta_->keyring().sealing_key_id(), id);
  EXPECT_TRUE(Has("one"));
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / kSecretFileName));
}

TEST_F(DirectorySecretsTest, WhatALostSecretSealedIsAbsentAndThereAgainWithIt) {
  ASSERT_TRUE(Open());
  Append("one");
  const auto kept = directory_.path() / "kept";
  std::filesystem::rename(directory_.path() / kSecretFileName, kept);
  ASSERT_TRUE(Open());
  EXPECT_FALSE(Has("one"));
  Append("two");
  EXPECT_EQ(Remembered("sealing_secrets").size(), 2 * 16u + 1) << "both are remembered";
  {
    std::ifstream old(kept);
    std::ofstream(directory_.path() / kSecretFileName, std::ios::app) << old.rdbuf();
  }
  ASSERT_TRUE(Open());
  EXPECT_TRUE(Has("one"));
  EXPECT_TRUE(Has("two"));
}

TEST_F(DirectorySecretsTest, ASecretThatNothingNeedsIsForgotten) {
  ASSERT_TRUE(Open());
  std::filesystem::remove(directory_.path() / kSecretFileName);
  ASSERT_TRUE(Open());
  EXPECT_EQ(Remembered("sealing_secrets").size(), 16u);
}

TEST_F(DirectorySecretsTest, GoingOverToAVariableNamesTurnsAnew) {
  ASSERT_TRUE(Open());
  Append("one");
  ::setenv(kVariable, Keyring::GenerateSecret().c_str(), 1);
  ASSERT_TRUE(Open(kVariable));
  EXPECT_TRUE(Has("one"));
  // The file is no longer needed, because the turn is sealed with the variable's secret.
  std::filesystem::remove(directory_.path() / kSecretFileName);
  ASSERT_TRUE(Open(kVariable));
  EXPECT_TRUE(Has("one"));
}

TEST_F(DirectorySecretsTest, OnlyLookingMakesNothing) {
  ASSERT_TRUE(Open("", false));
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / kSecretFileName));
  EXPECT_EQ(Remembered("sealing_secrets"), "");
}

}  // namespace
}  // namespace kvgate::store
