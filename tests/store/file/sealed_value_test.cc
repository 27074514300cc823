#include "store/file/sealed_value.h"

#include <gtest/gtest.h>

namespace kvgate::store::file {
namespace {

constexpr SealedKind kKind = {
    .magic = 7, .version = 2, .purpose = "test", .source = "store.test", .name = "a thing"};

const Keyring& Ring() {
  static const auto ring = Keyring::Generate();
  return *ring;
}

TEST(SealedValueTest, ItsBodyComesBackUnderItsOwnKeyOnly) {
  const std::string value = Seal(kKind, Ring(), "key", "body");
  const auto unsealed = Unseal(kKind, Ring(), "key", value);
  ASSERT_TRUE(unsealed);
  EXPECT_EQ(unsealed->body, "body");
  EXPECT_FALSE(unsealed->was_clear);
  EXPECT_EQ(value.find("body"), std::string::npos);
  EXPECT_EQ(Unseal(kKind, Ring(), "kez", value).error().code, ErrorCode::kDataLoss);
}

TEST(SealedValueTest, EveryChangedOrMissingByteIsFoundOut) {
  const std::string value = Seal(kKind, Ring(), "key", "body");
  for (size_t i = 0; i < value.size(); ++i) {
    std::string changed = value;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(Unseal(kKind, Ring(), "key", changed)) << i;
    EXPECT_FALSE(Unseal(kKind, Ring(), "key", value.substr(0, i))) << i;
  }
}

TEST(SealedValueTest, AnotherKindOrVersionIsNamed) {
  SealedKind newer = kKind;
  newer.version = 3;
  const auto read = Unseal(newer, Ring(), "key", Seal(kKind, Ring(), "key", ""));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().detail, "a thing: version 2, not 3");
  SealedKind other = kKind;
  other.magic = 8;
  EXPECT_FALSE(Unseal(other, Ring(), "key", Seal(kKind, Ring(), "key", "")));
}

TEST(SealedValueTest, WhatAnotherSecretSealedIsToldFromDamage) {
  const std::string value = Seal(kKind, Ring(), "key", "body");
  const auto other = Keyring::Generate();
  EXPECT_EQ(Unseal(kKind, *other, "key", value).error().code, ErrorCode::kPermissionDenied);
  EXPECT_TRUE(IsOfAnotherSecret(kKind, *other, value));
  EXPECT_FALSE(IsOfAnotherSecret(kKind, Ring(), value));
  EXPECT_FALSE(IsOfAnotherSecret(kKind, *other, "short"));
}

}  // namespace
}  // namespace kvgate::store::file
