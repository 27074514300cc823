#include "store/meta/removed_pins.h"

#include <gtest/gtest.h>

#include <string>

#include "base/clock.h"
#include "tests/store/memory_meta_store.h"

namespace kvgate::store::meta {
namespace {

RemovedPin Of(char name, int64_t removed_us) {
  return {.prefix = std::string(32, name), .tenant = "alice", .removed_us = removed_us};
}

TEST(RemovedPins, WhatWasRemovedIsKnownAfterARestartUntilItIsPinnedAgain) {
  MemoryMetaStore meta;
  const int64_t now_us = WallClock::NowUs();
  RemovedPins pins(meta);
  ASSERT_TRUE(pins.Note(Of('a', now_us)));
  ASSERT_TRUE(pins.Note(Of('b', now_us)));
  ASSERT_TRUE(pins.Note(Of('b', now_us - 5)));  // an earlier removal changes nothing
  ASSERT_TRUE(pins.Erase(Of('a', 0).prefix));
  ASSERT_TRUE(pins.Erase(Of('c', 0).prefix));
  const RemovedPins again = *RemovedPins::Load(meta, false);
  EXPECT_EQ(again.RemovedUs(Of('a', 0).prefix), 0);
  EXPECT_EQ(again.RemovedUs(Of('b', 0).prefix), now_us);
  ASSERT_EQ(again.List().size(), 1u);
  EXPECT_EQ(again.List()[0].tenant, "alice");
}

TEST(RemovedPins, OldOnesAndDamagedOnesGoAndThoseOfAnotherSecretStay) {
  MemoryMetaStore meta;
  const std::string secret = Keyring::GenerateSecret();
  meta.SetKeyring(*Keyring::Parse(secret, "test"));
  const int64_t now_us = WallClock::NowUs();
  {
    RemovedPins pins(meta);
    ASSERT_TRUE(pins.Note(Of('a', now_us)));
    ASSERT_TRUE(pins.Note(Of('o', now_us - RemovedPins::kAgeUsMax - 1'000'000)));
  }
  ASSERT_TRUE(meta.Put(MetaTable::kPrefixes, "U" + std::string(32, 'd'), "damaged"));
  meta.SetKeyring(Keyring::Generate());
  EXPECT_TRUE(RemovedPins::Load(meta, false)->List().empty());
  meta.SetKeyring(*Keyring::Parse(secret, "test"));
  EXPECT_EQ(RemovedPins::Load(meta, false)->List().size(), 1u);
  size_t num_rows = 0;
  (void)meta.Scan(MetaTable::kPrefixes, "U", [&](auto, auto) { return ++num_rows > 0; });
  EXPECT_EQ(num_rows, 1u);
}

TEST(RemovedPins, TheOldestLeaveWhereThereAreTooMany) {
  MemoryMetaStore meta;
  RemovedPins pins(meta);
  const int64_t now_us = WallClock::NowUs();
  const auto of = [&](size_t i) {
    RemovedPin removed = Of('x', now_us + static_cast<int64_t>(i));
    removed.prefix.replace(0, 5, std::to_string(10'000 + i));
    return removed;
  };
  for (size_t i = 0; i < RemovedPins::kRemovedMax + 2; ++i) ASSERT_TRUE(pins.Note(of(i)));
  EXPECT_EQ(pins.List().size(), RemovedPins::kRemovedMax);
  EXPECT_EQ(pins.RemovedUs(of(1).prefix), 0);
  EXPECT_NE(pins.RemovedUs(of(2).prefix), 0);
}

TEST(RemovedPins, APrefixIsNamedByItsTenantModelAndTokens) {
  const auto ring = Keyring::Generate();
  Pin pin{.leaf = {}, .model = {}, .name = "n", .version = {}, .tenant = "a", .tokens = {1, 2}};
  const std::string name = PrefixNameOf(*ring, pin);
  EXPECT_EQ(name.size(), 32u);
  pin.name = "m";
  pin.leaf.hash.low = 7;
  EXPECT_EQ(PrefixNameOf(*ring, pin), name);
  pin.leaf.fingerprint.low = 7;  // without a model, of these numerics
  const std::string other = PrefixNameOf(*ring, pin);
  EXPECT_NE(other, name);
  pin.model.low = 5;
  EXPECT_NE(PrefixNameOf(*ring, pin), other);
  pin.model = {};
  pin.leaf.fingerprint = {};
  pin.tenant = "b";
  EXPECT_NE(PrefixNameOf(*ring, pin), name);
  pin.tenant = "a";
  pin.tokens = {1, 3};
  EXPECT_NE(PrefixNameOf(*ring, pin), name);
  EXPECT_NE(PrefixNameOf(*Keyring::Generate(), pin), name);
}

}  // namespace
}  // namespace kvgate::store::meta
