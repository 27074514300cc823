#include "gateway/replay/cache_store.h"

#include <gtest/gtest.h>

namespace kvgate::replay {
namespace {

constexpr int64_t kSecond = 1'000'000;

PrefixHash HashOf(std::string_view text) {
  PrefixChain chain;
  chain.Add(text);
  return chain.hash();
}

TEST(PrefixChain, KnowsWhereAPartEnds) {
  PrefixChain ab_c;
  ab_c.Add("ab");
  ab_c.Add("c");
  PrefixChain a_bc;
  a_bc.Add("a");
  a_bc.Add("bc");
  EXPECT_NE(ab_c.hash(), a_bc.hash());
}

TEST(CacheStore, AnEntryIsReadableFromTheAnswersBeginning) {
  CacheStore store;
  store.Put(HashOf("a"), {.now_us = 0, .readable_us = 2 * kSecond, .ttl_seconds = 300});
  EXPECT_FALSE(store.Has(HashOf("a"), kSecond));
  EXPECT_TRUE(store.Has(HashOf("a"), 2 * kSecond));
  EXPECT_FALSE(store.Has(HashOf("b"), 2 * kSecond));
}

TEST(CacheStore, ALifetimeCountsFromTheStartOfItsLastUse) {
  CacheStore store;
  store.Put(HashOf("a"), {.now_us = 0, .readable_us = 2 * kSecond, .ttl_seconds = 300});
  EXPECT_TRUE(store.Has(HashOf("a"), 299 * kSecond));
  EXPECT_FALSE(store.Has(HashOf("a"), 300 * kSecond));
  store.Refresh(HashOf("a"), 299 * kSecond);
  EXPECT_TRUE(store.Has(HashOf("a"), 598 * kSecond));
  EXPECT_FALSE(store.Has(HashOf("a"), 599 * kSecond));
}

TEST(CacheStore, AWriteThatRunsBesideAnotherDoesNotDelayIt) {
  CacheStore store;
  store.Put(HashOf("a"), {.now_us = 0, .readable_us = 2 * kSecond, .ttl_seconds = 300});
  store.Put(HashOf("a"), {.now_us = kSecond, .readable_us = 5 * kSecond, .ttl_seconds = 300});
  EXPECT_TRUE(store.Has(HashOf("a"), 2 * kSecond));
}

TEST(CacheStore, AnEntryWithoutALifetimeStays) {
  CacheStore store;
  store.Put(HashOf("a"), {.now_us = 0, .readable_us = 0, .ttl_seconds = CacheStore::kForever});
  EXPECT_TRUE(store.Has(HashOf("a"), int64_t{86400} * 365 * kSecond));
}

}  // namespace
}  // namespace kvgate::replay
