#include "gateway/session/memory/kept_memory.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace kvgate::session::memory {
namespace {

KeptMemory Set(const KeptMemory& kept, const Entries& changes, int64_t now_us) {
  Memory next = kept.memory;
  Apply(changes, next.entries);
  return Changed(kept, next, now_us);
}

KeptMemory Switched(const KeptMemory& kept, std::optional<bool> retrieves, int64_t now_us) {
  Memory next = kept.memory;
  next.retrieves = retrieves;
  return Changed(kept, next, now_us);
}

TEST(KeptMemory, ChangesOfDifferentFactsBothHold) {
  const KeptMemory common = Set({}, {{"a", "1"}, {"b", "1"}}, 100);
  const KeptMemory one = Set(common, {{"a", "2"}, {"c", "1"}}, 200);
  const KeptMemory other = Set(common, {{"b", "null"}, {"d", "1"}}, 150);
  EXPECT_EQ(Merged(one, other).memory.entries, (Entries{{"a", "2"}, {"d", "1"}, {"c", "1"}}));
  EXPECT_EQ(Merged(other, one).memory.entries, (Entries{{"a", "2"}, {"c", "1"}, {"d", "1"}}));
}

TEST(KeptMemory, OfTwoChangesOfOneFactTheLaterOneHolds) {
  const KeptMemory common = Set({}, {{"a", "1"}}, 100);
  const KeptMemory removed = Set(common, {{"a", "null"}}, 200);
  const KeptMemory earlier = Set(common, {{"a", "2"}}, 150);
  const KeptMemory later = Set(common, {{"a", "3"}}, 250);
  const KeptMemory at_once = Set(common, {{"a", "4"}}, 200);
  EXPECT_TRUE(Merged(earlier, removed).memory.is_empty());
  EXPECT_TRUE(Merged(at_once, removed).memory.is_empty());
  EXPECT_TRUE(Merged(removed, common).memory.is_empty());
  EXPECT_EQ(Merged(removed, later).memory.entries, (Entries{{"a", "3"}}));
}

TEST(KeptMemory, AChangeIsLaterThanWhatWasKnownWhereItWasMadeWhateverTheClockSays) {
  const KeptMemory ahead = Set({}, {{"a", "1"}}, 1'000'000);
  const KeptMemory behind = Set(ahead, {{"a", "2"}}, 10);
  EXPECT_EQ(Merged(ahead, behind).memory.entries, (Entries{{"a", "2"}}));
  const KeptMemory off = Switched(Switched({}, true, 1'000), std::nullopt, 10);
  EXPECT_EQ(Merged(Switched({}, true, 1'000), off).memory.retrieves, std::nullopt);
}

TEST(KeptMemory, TheSwitchIsAChangeOfItsOwn) {
  const KeptMemory common = Set({}, {{"a", "1"}}, 100);
  const KeptMemory merged = Merged(Switched(common, false, 110), Set(common, {{"a", "2"}}, 120));
  EXPECT_EQ(merged.memory.retrieves, false);
  EXPECT_EQ(merged.memory.entries, (Entries{{"a", "2"}}));
}

TEST(KeptMemory, InWhateverOrderMemoriesAreMergedTheResultIsTheSame) {
  std::mt19937 random(17);
  for (int round = 0; round < 200; ++round) {
    std::vector<KeptMemory> all(3);
    for (int change = 0; change < 30; ++change) {
      KeptMemory& one = all[random() % 3];
      const std::string name(1, static_cast<char>('a' + random() % 5));
      const int64_t now_us = 100 + random() % 20;
      if (random() % 4 == 0) one = Merged(one, all[random() % 3]);
      if (random() % 6 == 0) one = Switched(one, random() % 2 == 0, now_us);
      one = Set(one, {{name, random() % 3 == 0 ? "null" : std::to_string(random() % 9)}}, now_us);
    }
    KeptMemory one = Merged(Merged(all[0], all[1]), all[2]);
    KeptMemory other = Merged(all[1], Merged(all[2], all[0]));
    for (const KeptMemory& each : all) one = Merged(one, each);  // once more changes nothing
    EXPECT_EQ(one.changed_us, other.changed_us);
    EXPECT_EQ(one.memory.retrieves, other.memory.retrieves);
    EXPECT_EQ(one.memory.entries.size(), other.memory.entries.size());
    for (const Entry& entry : one.memory.entries) {
      ASSERT_NE(Find(other.memory.entries, entry.name), nullptr);
      EXPECT_EQ(Find(other.memory.entries, entry.name)->value, entry.value);
    }
    // Who takes over what was merged has it in the same order.
    EXPECT_TRUE(IsSame(Merged(other, one), one));
  }
}

TEST(KeptMemory, WhatIsTooMuchTogetherLeavesOutTheOldestFacts) {
  KeptMemory one;
  KeptMemory other;
  for (size_t i = 0; i < kEntriesMax; ++i) {
    one = Set(one, {{"a" + std::to_string(i), "1"}}, 100 + static_cast<int64_t>(i));
    other = Set(other, {{"b" + std::to_string(i), "1"}}, 1'000 + static_cast<int64_t>(i));
  }
  const KeptMemory merged = Merged(one, other);
  EXPECT_TRUE(IsSame(merged, other));
  EXPECT_TRUE(IsSame(Merged(merged, one), merged));
}

TEST(KeptMemory, SomeRemovalsAreRememberedForAWhile) {
  KeptMemory kept;
  for (size_t i = 0; i < KeptMemory::kRemovedMax + 10; ++i) {
    const std::string name = "n" + std::to_string(i);
    kept = Set(kept, {{name, "1"}}, static_cast<int64_t>(2 * i + 1));
    kept = Set(kept, {{name, "null"}}, static_cast<int64_t>(2 * i + 2));
  }
  EXPECT_EQ(kept.changed_us.size(), KeptMemory::kRemovedMax);
  EXPECT_TRUE(kept.memory.is_empty());
  EXPECT_FALSE(kept.is_empty());
  EXPECT_TRUE(kept.has_removals());
  ForgetRemoved(kept, INT64_MAX);
  EXPECT_TRUE(kept.is_empty());
}

TEST(KeptMemory, ATextSaysAllOfItAndAnEarlierVersionsTextIsRead) {
  KeptMemory kept = Switched(Set({}, {{"a b", "{\"c\":1}"}, {"gone", "1"}}, 100), true, 200);
  kept = Set(kept, {{"gone", "null"}}, 300);
  kept.sharing = KeptMemory::Sharing::kUntold;
  const auto read = ReadText(ToText({.tenant = "t", .session = "s"}, kept, true));
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_TRUE(IsSame(read->kept, kept));
  EXPECT_EQ(read->kept.sharing, kept.sharing);
  EXPECT_EQ(read->owner.session, "s");
  const auto told = ReadText(ToText({.tenant = "t", .session = "s"}, kept, false));
  EXPECT_EQ(told->kept.sharing, KeptMemory::Sharing::kNever);

  const auto old =
      ReadText(R"({"tenant":"t","session":"","updated_us":7,"retrieval":2,"facts":{"a":1}})");
  ASSERT_TRUE(old);
  EXPECT_EQ(old->kept.changed_us.at("a"), 7);
  EXPECT_EQ(old->kept.switched_us, 7);
  EXPECT_EQ(old->kept.memory.retrieves, false);
  for (const char* wrong : {"", "[]", R"({"facts":[]})", R"({"facts":{},"changed":{"a":"x"}})",
                            R"({"facts":{},"changed":{"a":-1}})", R"({"facts":{},"changed":7})"}) {
    EXPECT_FALSE(ReadText(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace kvgate::session::memory
