#include "gateway/prompt/planner/explicit_caches.h"

#include <gtest/gtest.h>

namespace kvgate::prompt::planner {
namespace {

constexpr int64_t kSecondUs = 1'000'000;
constexpr int64_t kTokens = 5'000;

ledger::PriceRow Row(double rent_hour = 3.6) {
  ledger::PriceRow row;
  row.factors = ledger::CacheFactors{.read = 0.1, .write = 1, .rent_hour = rent_hour};
  row.rules.minimum_tokens = 2'048;
  return row;
}

// Requests that begin with one prefix of 5,000 tokens, and what is decided about them.
class Prefix {
 public:
  explicit Prefix(ExplicitCaches& caches, uint8_t id = 1) : caches_(caches) { key.bytes[0] = id; }

  // A request comes after so many seconds, and is answered.
  ExplicitCaches::Decision Ask(int64_t seconds, int64_t cached_tokens) {
    now_us += seconds * kSecondUs;
    ExplicitCaches::Decision decision =
        caches_.Decide({.key = key, .num_bytes = 4 * kTokens, .row = row, .now_us = now_us});
    caches_.NoteAnswer({.key = key,
                        .had_name = !decision.name.empty(),
                        .body_bytes = 4 * (kTokens + 100),
                        .input_tokens = kTokens + 100,
                        .cached_tokens = decision.name.empty() ? cached_tokens : kTokens,
                        .now_us = now_us});
    return decision;
  }
  // Asks until a cache is ordered; returns the number of requests, or -1 after `most`.
  int AskUntilOrdered(int most, int64_t seconds, int64_t cached_tokens) {
    for (int i = 1; i <= most; ++i) {
      ordered = Ask(seconds, cached_tokens);
      if (ordered.ttl_seconds > 0) return i;
    }
    return -1;
  }
  void Keep() {
    caches_.NoteKept(key, "cachedContents/a", kTokens, now_us + ordered.ttl_seconds * kSecondUs);
  }

  ExplicitCaches::Key key;
  ledger::PriceRow row = Row();
  int64_t now_us = 1'000 * kSecondUs;
  ExplicitCaches::Decision ordered;

 private:
  ExplicitCaches& caches_;
};

TEST(ExplicitCachesTest, WhatTheProvidersOwnCacheMissesIsKeptUnderAName) {
  ExplicitCaches caches;
  Prefix prefix(caches);
  // The first request would have had to write a cache too. Then two that miss pay for five minutes.
  EXPECT_EQ(prefix.AskUntilOrdered(20, 10, 0), 4);
  EXPECT_EQ(prefix.ordered.ttl_seconds, 300);
  EXPECT_EQ(prefix.ordered.name, "");
  EXPECT_EQ(prefix.Ask(1, 0).ttl_seconds, 0) << "it is being made";
  prefix.Keep();
  EXPECT_EQ(prefix.Ask(1, 0).name, "cachedContents/a");
}

TEST(ExplicitCachesTest, WhatTheProvidersOwnCacheHitsIsNot) {
  ExplicitCaches caches;
  Prefix hit(caches);
  EXPECT_EQ(hit.AskUntilOrdered(500, 10, kTokens), -1);
  Prefix beyond(caches, 2);  // a conversation that goes on is read to its end
  EXPECT_EQ(beyond.AskUntilOrdered(500, 10, 10 * kTokens), -1);
}

// One in twenty is missed: with a request a second that is a lot, with one a minute it is not.
TEST(ExplicitCachesTest, RareMissesCountByTheirRate) {
  const auto orders = [](int64_t seconds) {
    ExplicitCaches caches;
    Prefix prefix(caches);
    for (int i = 0; i < 3'000; ++i) {
      if (prefix.Ask(seconds, i % 20 == 0 ? 0 : kTokens).ttl_seconds > 0) return true;
    }
    return false;
  };
  EXPECT_TRUE(orders(1));
  EXPECT_FALSE(orders(60));
}

TEST(ExplicitCachesTest, RequestsThatComeSeldomAreNotWorthTheRent) {
  ExplicitCaches caches;
  Prefix prefix(caches);
  EXPECT_EQ(prefix.AskUntilOrdered(200, 1'200, 0), -1) << "three an hour, all missed";
  Prefix cheap(caches, 2);
  cheap.row = Row(0.5);
  EXPECT_GT(cheap.AskUntilOrdered(200, 1'200, 0), 0) << "where an hour costs half a prefix";
}

TEST(ExplicitCachesTest, AShortPrefixIsNeverKept) {
  ExplicitCaches caches;
  Prefix prefix(caches);
  prefix.row.rules.minimum_tokens = kTokens + 1'000;
  EXPECT_EQ(prefix.AskUntilOrdered(200, 1, 0), -1);
}

TEST(ExplicitCachesTest, ACacheIsProlongedWhileItsReadsPayAndElseExpires) {
  ExplicitCaches caches;
  Prefix prefix(caches);
  ASSERT_GT(prefix.AskUntilOrdered(20, 10, 0), 0);
  prefix.Keep();
  int num_prolonged = 0;
  for (int i = 0; i < 100; ++i) {
    const ExplicitCaches::Decision decision = prefix.Ask(10, 0);
    EXPECT_EQ(decision.name, "cachedContents/a") << i;
    if (decision.ttl_seconds == 0) continue;
    ++num_prolonged;
    prefix.Keep();
  }
  EXPECT_GE(num_prolonged, 3) << "a thousand seconds, five minutes at a time";
  // One read in five minutes does not pay for the next five.
  EXPECT_EQ(prefix.Ask(250, 0).ttl_seconds, 0);
  EXPECT_EQ(prefix.Ask(60, 0).name, "") << "it has expired";
}

TEST(ExplicitCachesTest, WhatIsRefusedOrLostIsNotUsed) {
  ExplicitCaches caches;
  Prefix prefix(caches);
  ASSERT_GT(prefix.AskUntilOrdered(20, 10, 0), 0);
  caches.NoteRefused(prefix.key, prefix.now_us + 100 * kSecondUs);
  EXPECT_EQ(prefix.AskUntilOrdered(9, 10, 0), -1) << "not before the time";
  EXPECT_EQ(prefix.AskUntilOrdered(9, 10, 0), 1);
  prefix.Keep();
  EXPECT_EQ(prefix.Ask(1, 0).name, "cachedContents/a");
  caches.NoteLost(prefix.key, "cachedContents/other");
  EXPECT_EQ(prefix.Ask(1, 0).name, "cachedContents/a");
  caches.NoteLost(prefix.key, "cachedContents/a");
  EXPECT_EQ(prefix.Ask(1, 0).name, "");
  EXPECT_GT(prefix.AskUntilOrdered(9, 10, 0), 1) << "it has to be worth it anew";
}

// Many hits of more than an hour ago must not make small what a cache saves now.
TEST(ExplicitCachesTest, WhatWasSeenLongAgoDoesNotCount) {
  ExplicitCaches caches;
  Prefix prefix(caches);
  for (int i = 0; i < 2'000; ++i) prefix.Ask(0, kTokens);
  prefix.Ask(400, kTokens);
  prefix.Ask(3'300, kTokens);
  ASSERT_GT(prefix.AskUntilOrdered(20, 10, 0), 0);
  prefix.Keep();
  bool is_prolonged = false;
  for (int i = 0; i < 300; ++i) is_prolonged |= prefix.Ask(10, 0).ttl_seconds > 0;
  EXPECT_TRUE(is_prolonged);
}

TEST(ExplicitCachesTest, AnOrderWithoutAnOutcomeIsGivenUpAfterItsTime) {
  ExplicitCaches caches;
  Prefix prefix(caches);
  ASSERT_GT(prefix.AskUntilOrdered(20, 10, 0), 0);
  EXPECT_EQ(prefix.AskUntilOrdered(ExplicitCaches::kOrderSeconds / 10, 10, 0), -1);
  EXPECT_EQ(prefix.AskUntilOrdered(1, 10, 0), 1);
}

TEST(ExplicitCachesTest, ItsEntriesAreBounded) {
  ExplicitCaches caches;
  const ledger::PriceRow row = Row();
  ExplicitCaches::Key key;
  for (size_t i = 0; i < 3 * ExplicitCaches::kEntriesMax; ++i) {
    key.bytes[0] = static_cast<uint8_t>(i);
    key.bytes[1] = static_cast<uint8_t>(i >> 8);
    caches.Decide({.key = key, .num_bytes = 1, .row = row, .now_us = 1});
  }
  EXPECT_EQ(caches.size(), ExplicitCaches::kEntriesMax);
  caches.NoteAnswer({.key = {}, .now_us = 1});  // forgotten: nothing comes of it
  caches.NoteKept({}, "cachedContents/a", 1, 2);
  EXPECT_EQ(caches.size(), ExplicitCaches::kEntriesMax);
}

}  // namespace
}  // namespace kvgate::prompt::planner
