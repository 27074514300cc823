#include "gateway/ledger/rollup/rollups.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gateway/ledger/rollup/rollup_reader.h"
#include "tests/store/memory_meta_store.h"

namespace kvgate::ledger::rollup {
namespace {

using store::MemoryMetaStore;
using store::meta::MetaTable;

constexpr int64_t kHourUs = 60 * kMinuteUs;
constexpr int64_t kDayUs = 24 * kHourUs;
// A day's beginning.
constexpr int64_t kStartUs = 20'700 * kDayUs;

Entry Of(int64_t time_us, const std::string& model, const std::string& tenant = "t") {
  Entry entry{.time_us = time_us,
              .tenant = tenant,
              .whole = {.requests = 1, .uncached_tokens = 10, .nanodollars = 3},
              .names = {{By::kModel, model}}};
  entry.whole.ttft.Add(1'000);
  entry.parts.push_back(
      {.by = By::kSource, .name = "user", .bucket = {.uncached_tokens = 10, .nanodollars = 3}});
  return entry;
}

class RollupsTest : public testing::Test {
 protected:
  void Store(const std::vector<Entry>& entries) { Store(rollups_, entries); }
  void Store(Rollups& rollups, const std::vector<Entry>& entries) {
    const auto rows = rollups.Sum(entries);
    ASSERT_TRUE(rows);
    ASSERT_TRUE(meta_.PutAll(MetaTable::kLedger, *rows));
    rollups.Accept();
  }
  void Note(Rollups& rollups, const std::vector<Entry>& entries) {
    const auto rows = rollups.Note(entries);
    EXPECT_EQ(rows.size(), entries.empty() ? 0U : 1U);
    ASSERT_TRUE(meta_.PutAll(MetaTable::kLedger, rows));
    rollups.Accept();
  }
  size_t CountNotes() const { return meta_.CountRows(MetaTable::kLedger, "j/"); }
  std::vector<Row> Read(Query query, int64_t now_us = kStartUs + kDayUs) {
    if (query.to_us == 0) query.to_us = kStartUs + kDayUs;
    if (query.from_us == 0) query.from_us = kStartUs;
    return ReadRollups(meta_, query, now_us).value().rows;
  }

  MemoryMetaStore meta_;
  Rollups rollups_{meta_, {}};
};

TEST_F(RollupsTest, EachStepAndNameHasItsSum) {
  Store({Of(kStartUs, "a"), Of(kStartUs + kMinuteUs, "a"), Of(kStartUs + kMinuteUs + 1, "b")});
  Store({Of(kStartUs + kMinuteUs + 2, "b"), Of(kStartUs + 2 * kHourUs, "b")});
  const auto minutes = Read({.step = Step::kMinute, .by = By::kModel});
  ASSERT_EQ(minutes.size(), 4U);
  EXPECT_EQ(minutes[0].name, "a");
  EXPECT_EQ(minutes[0].time_us, kStartUs);
  EXPECT_EQ(minutes[2].name, "b");
  EXPECT_EQ(minutes[2].bucket.requests, 2);
  const auto hours = Read({.step = Step::kHour});
  ASSERT_EQ(hours.size(), 2U);
  EXPECT_EQ(hours[0].bucket.requests, 4);
  EXPECT_EQ(hours[0].bucket.uncached_tokens, 40);
  EXPECT_EQ(hours[0].bucket.ttft.count(), 4);
  const auto days = Read({.step = Step::kDay, .by = By::kSource});
  ASSERT_EQ(days.size(), 1U);
  EXPECT_EQ(days[0].bucket.uncached_tokens, 50);
  EXPECT_EQ(days[0].bucket.requests, 0);
}

TEST_F(RollupsTest, ATenantSeesWhatIsItsOwn) {
  Store({Of(kStartUs, "a", "one"), Of(kStartUs, "a", "two"), Of(kStartUs, "b", "two")});
  EXPECT_EQ(Read({.step = Step::kDay})[0].bucket.requests, 3);
  const auto own = Read({.step = Step::kDay, .by = By::kModel, .scope = ScopeOfTenant("two")});
  ASSERT_EQ(own.size(), 2U);
  EXPECT_EQ(own[0].bucket.requests, 1);
  EXPECT_TRUE(Read({.step = Step::kDay, .scope = ScopeOfTenant("three")}).empty());
}

TEST_F(RollupsTest, ALaterProcessGoesOnFromTheRows) {
  Store({Of(kStartUs, "a")});
  Rollups later(meta_, {});
  Store(later, {Of(kStartUs + 1, "a")});
  EXPECT_EQ(Read({.step = Step::kMinute, .by = By::kModel})[0].bucket.requests, 2);
}

TEST_F(RollupsTest, RowsThatTheStoreRefusesComeAgain) {
  ASSERT_TRUE(rollups_.Sum(std::vector{Of(kStartUs, "a")}));
  EXPECT_TRUE(rollups_.has_unwritten());
  Store({Of(kStartUs, "a")});
  EXPECT_FALSE(rollups_.has_unwritten());
  EXPECT_EQ(Read({.step = Step::kMinute})[0].bucket.requests, 2);
}

TEST_F(RollupsTest, NotesBecomeSumsAndGo) {
  for (int i = 0; i < 5; ++i) Note(rollups_, {Of(kStartUs + i, "a"), Of(kStartUs, "b", "u")});
  EXPECT_EQ(CountNotes(), 5U);
  EXPECT_TRUE(Read({.step = Step::kMinute}).empty());
  EXPECT_TRUE(rollups_.has_unwritten());
  Store({Of(kStartUs, "a")});
  EXPECT_EQ(CountNotes(), 0U);
  EXPECT_FALSE(rollups_.has_unwritten());
  const auto rows = Read({.step = Step::kMinute, .by = By::kModel});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].bucket.requests, 6);
  EXPECT_EQ(rows[1].bucket.requests, 5);
  Note(rollups_, {});
  EXPECT_FALSE(rollups_.has_unwritten());
}

TEST_F(RollupsTest, ANoteThatTheStoreRefusesCountsNothing) {
  EXPECT_EQ(rollups_.Note(std::vector{Of(kStartUs, "lost")}).size(), 1U);
  Note(rollups_, {Of(kStartUs, "a")});
  Store({});
  const auto rows = Read({.step = Step::kDay, .by = By::kModel});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].name, "a");
}

TEST_F(RollupsTest, ALaterProcessSumsTheNotesOfOneThatWasKilled) {
  Store({Of(kStartUs, "a")});
  Note(rollups_, {Of(kStartUs, "a")});
  Note(rollups_, {Of(kStartUs, "a")});
  Rollups later(meta_, {});
  ASSERT_TRUE(later.Restore());
  EXPECT_TRUE(later.has_unwritten());
  Note(later, {Of(kStartUs, "a")});
  EXPECT_EQ(CountNotes(), 3U) << "a new note has a key of its own";
  Store(later, {});
  EXPECT_EQ(CountNotes(), 0U);
  EXPECT_EQ(Read({.step = Step::kMinute})[0].bucket.requests, 4);
  Rollups last(meta_, {});
  ASSERT_TRUE(last.Restore());
  EXPECT_FALSE(last.has_unwritten());
}

TEST_F(RollupsTest, ADamagedNoteIsDroppedAlone) {
  Note(rollups_, {Of(kStartUs, "a")});
  Note(rollups_, {Of(kStartUs, "a")});
  ASSERT_TRUE(meta_.Put(MetaTable::kLedger, "j/0000000000000000", "damaged"));
  Rollups later(meta_, {});
  ASSERT_TRUE(later.Restore());
  Store(later, {});
  EXPECT_EQ(CountNotes(), 0U);
  EXPECT_EQ(Read({.step = Step::kMinute})[0].bucket.requests, 1);
}

TEST_F(RollupsTest, NamesAreBoundedAndNothingIsLost) {
  std::vector<Entry> entries;
  for (int i = 0; i < 1'000; ++i) entries.push_back(Of(kStartUs, "m" + std::to_string(i)));
  Store(entries);
  const auto rows = Read({.step = Step::kMinute, .by = By::kModel});
  EXPECT_EQ(rows.size(), kNamesMax);
  int64_t requests = 0;
  int64_t other = 0;
  for (const Row& row : rows) {
    requests += row.bucket.requests;
    if (row.name == kOther) other = row.bucket.requests;
  }
  EXPECT_EQ(requests, 1'000);
  EXPECT_EQ(other, 1'000 - 255);
  Rollups later(meta_, {});
  Store(later, {Of(kStartUs, "another")});
  EXPECT_EQ(Read({.step = Step::kMinute, .by = By::kModel}).size(), kNamesMax);
}

TEST_F(RollupsTest, MemoryIsBoundedAndWhatWasDroppedIsReadAgain) {
  Rollups small(meta_, {.buckets_max = 50});
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 100; ++i) Store(small, {Of(kStartUs + i * kMinuteUs, "a")});
  }
  const auto rows = Read({.step = Step::kMinute});
  ASSERT_EQ(rows.size(), 100U);
  for (const Row& row : rows) EXPECT_EQ(row.bucket.requests, 2);
  EXPECT_EQ(Read({.step = Step::kDay})[0].bucket.requests, 200);
}

TEST_F(RollupsTest, OldMinutesGoAndDaysStay) {
  Store({Of(kStartUs, "a"), Of(kStartUs + 50 * kHourUs, "a")});
  const auto old = rollups_.TakeOld(kStartUs + 51 * kHourUs);
  ASSERT_TRUE(old);
  ASSERT_FALSE(old->empty());
  for (const auto& row : *old) EXPECT_TRUE(row.key.starts_with("u/m/")) << row.key;
  ASSERT_TRUE(meta_.PutAll(MetaTable::kLedger, *old));
  const int64_t now_us = kStartUs + 51 * kHourUs;
  EXPECT_EQ(Read({.step = Step::kMinute, .from_us = now_us - 2 * kHourUs, .to_us = now_us}, now_us)
                .size(),
            1U);
  EXPECT_EQ(Read({.step = Step::kDay, .to_us = now_us}, now_us).size(), 2U);
  EXPECT_TRUE(rollups_.TakeOld(now_us)->empty());
}

TEST_F(RollupsTest, RandomRequestsHaveTheSumsOfANaiveCount) {
  std::mt19937 random(11);
  std::map<std::pair<int64_t, std::string>, int64_t> naive;
  int64_t now_us = kStartUs;
  std::optional<Rollups> rollups(std::in_place, meta_, Rollups::Options{});
  for (int step = 0; step < 200; ++step) {
    std::vector<Entry> entries;
    for (size_t i = random() % 20; i > 0; --i) {
      const int64_t time_us = now_us - static_cast<int64_t>(random() % 200) * kMinuteUs / 10;
      const std::string model = "m" + std::to_string(random() % 5);
      entries.push_back(Of(std::max(time_us, kStartUs), model));
      ++naive[{entries.back().time_us / kMinuteUs, model}];
    }
    if (random() % 3 == 0) {
      Store(*rollups, entries);
    } else {
      Note(*rollups, entries);
    }
    if (random() % 8 == 0) {  // killed
      rollups.emplace(meta_, Rollups::Options{.buckets_max = 64});
      ASSERT_TRUE(rollups->Restore());
    }
    now_us += static_cast<int64_t>(random() % 10) * kMinuteUs;
  }
  Store(*rollups, {});
  const auto rows = Read({.step = Step::kMinute, .by = By::kModel});
  ASSERT_EQ(rows.size(), naive.size());
  for (const Row& row : rows) {
    EXPECT_EQ(row.bucket.requests, (naive[{row.time_us / kMinuteUs, row.name}]));
  }
}

}  // namespace
}  // namespace kvgate::ledger::rollup
