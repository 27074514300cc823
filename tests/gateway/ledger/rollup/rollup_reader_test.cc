#include "gateway/ledger/rollup/rollup_reader.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gateway/ledger/rollup/rollups.h"
#include "tests/store/memory_meta_store.h"

namespace kvgate::ledger::rollup {
namespace {

using Json = nlohmann::json;
using store::MemoryMetaStore;
using store::meta::MetaTable;

constexpr int64_t kHourUs = 60 * kMinuteUs;
constexpr int64_t kDayUs = 24 * kHourUs;
constexpr int64_t kStartUs = 20'700 * kDayUs;
constexpr int64_t kNowUs = kStartUs + 9 * kDayUs + 5 * kHourUs + 7 * kMinuteUs;

class RollupReaderTest : public testing::Test {
 protected:
  // One request in every five minutes up to now.
  RollupReaderTest() {
    Rollups rollups(meta_, {});
    std::vector<Entry> entries;
    for (int64_t time_us = kStartUs; time_us <= kNowUs; time_us += 5 * kMinuteUs) {
      Entry entry{.time_us = time_us, .tenant = "t", .whole = {.requests = 1, .breaks = 1}};
      entry.names = {{By::kModel, "m"}};
      entry.whole.ttft.Add(2'000);
      entries.push_back(std::move(entry));
    }
    const auto rows = rollups.Sum(entries);
    EXPECT_TRUE(rows && meta_.PutAll(MetaTable::kLedger, *rows));
    rollups.Accept();
    const auto old = rollups.TakeOld(kNowUs);
    EXPECT_TRUE(old && meta_.PutAll(MetaTable::kLedger, *old));
  }
  int64_t Requests(const Query& query) const {
    int64_t requests = 0;
    const Rows rows = ReadRollups(meta_, query, kNowUs).value();
    for (const Row& row : rows.rows) requests += row.bucket.requests;
    return requests;
  }

  MemoryMetaStore meta_;
};

TEST_F(RollupReaderTest, ASumOverASpanIsExactAsLongAsItsMinutesAreKept) {
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    const int64_t from = kNowUs / kMinuteUs - static_cast<int64_t>(random() % (47 * 60));
    const int64_t to =
        std::min(kNowUs / kMinuteUs, from + 1 + static_cast<int64_t>(random() % (47 * 60)));
    if (from >= to) continue;
    const Query query{.step = std::nullopt, .from_us = from * kMinuteUs, .to_us = to * kMinuteUs};
    // The multiples of five minutes in the span.
    EXPECT_EQ(Requests(query), (to + 4) / 5 - (from + 4) / 5) << from << " " << to;
  }
}

TEST_F(RollupReaderTest, ASumUpToNowTakesWholeStepsAndIsExact) {
  const Query query{.step = std::nullopt, .from_us = kStartUs, .to_us = 0};
  EXPECT_EQ(Requests(query), (kNowUs - kStartUs) / (5 * kMinuteUs) + 1);
  // What is older than the minutes that are kept begins with its hour.
  const Query old{.step = std::nullopt, .from_us = kStartUs + 30 * kMinuteUs, .to_us = 0};
  EXPECT_EQ(Requests(old), Requests(query));
}

TEST_F(RollupReaderTest, WithoutTimesItShowsTheUsualSpan) {
  EXPECT_EQ(ReadRollups(meta_, {.step = Step::kMinute}, kNowUs).value().rows.size(), 12U);
  EXPECT_EQ(ReadRollups(meta_, {.step = Step::kHour}, kNowUs).value().rows.size(), 49U);
  EXPECT_EQ(ReadRollups(meta_, {.step = Step::kDay}, kNowUs).value().rows.size(), 10U);
}

TEST_F(RollupReaderTest, ASpanThatEndsBeforeItBeginsIsNamed) {
  const auto rows = ReadRollups(meta_, {.from_us = kNowUs, .to_us = kStartUs}, kNowUs);
  ASSERT_FALSE(rows);
  EXPECT_EQ(rows.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(rows.error().field, "from_us");
}

TEST_F(RollupReaderTest, MoreStepsThanAnAnswerShouldHaveAreRefused) {
  const auto of = [&](int64_t minutes) {
    return ReadRollups(meta_, {.step = Step::kMinute, .from_us = kNowUs - minutes * kMinuteUs},
                       kNowUs);
  };
  EXPECT_TRUE(of(1'440));
  ASSERT_FALSE(of(2'000));
  EXPECT_EQ(of(2'000).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(RollupReaderTest, RowsShowTheFieldsOfTheirDimension) {
  const auto json = [&](const Query& query) {
    std::string text;
    dialect::form::JsonWriter writer(text);
    WriteRollups(query, ReadRollups(meta_, query, kNowUs).value(), writer);
    return Json::parse(text);
  };
  const Json whole = json({.step = Step::kDay, .by = By::kModel});
  EXPECT_EQ(whole["step"], "day");
  EXPECT_EQ(whole["by"], "model");
  const Json& row = whole["data"][0];
  EXPECT_EQ(row["name"], "m");
  EXPECT_EQ(row["time_us"], kStartUs);
  EXPECT_EQ(row["requests"], 288);
  EXPECT_NEAR(row["ttft_us"]["p50"].get<double>(), 2'000, 250);
  EXPECT_TRUE(row["tpot_us"].is_null());
  EXPECT_TRUE(json({.step = std::nullopt, .by = By::kSource})["data"].empty());
  EXPECT_EQ(json({.step = std::nullopt})["step"], "all");
}

}  // namespace
}  // namespace kvgate::ledger::rollup
