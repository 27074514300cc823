#include "gateway/ledger/record_writer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gateway/ledger/record_format.h"
#include "gateway/ledger/segment/segment_format.h"
#include "tests/store/memory_meta_store.h"

namespace kvgate::ledger {
namespace {

using store::MemoryMetaStore;
using store::meta::MetaTable;

constexpr int64_t kDayUs = int64_t{86'400} * 1'000'000;
constexpr int64_t kNowUs = 20'700 * kDayUs;

class RecordWriterTest : public testing::Test {
 protected:
  static RecordWriter::Options Options(MemoryMetaStore& meta) {
    return {.meta = meta, .records_max = 10, .retention_days = 30, .segments_max = 4};
  }
  RecordWriter::Row Row(int number, int64_t time_us = kNowUs) {
    RequestRecord record;
    record.id = "id" + std::to_string(1'000 + number);
    record.time_us = time_us;
    return {.key = RecordKey(record.id),
            .record = EncodeRecord(record, meta_.keyring()),
            .segments = segment::EncodeSegments({}),
            .entry = {.time_us = time_us, .whole = {.requests = 1}}};
  }
  size_t Count(std::string_view prefix) const {
    return meta_.CountRows(MetaTable::kLedger, prefix);
  }

  MemoryMetaStore meta_;
};

TEST_F(RecordWriterTest, AStepIsOneWrite) {
  RecordWriter writer(Options(meta_));
  ASSERT_TRUE(writer.Write({.rows = {Row(1), Row(2)}, .sums = {{"all/", "{}"}}}));
  EXPECT_EQ(meta_.num_batches, 1);
  EXPECT_EQ(Count("r/"), 2U);
  EXPECT_EQ(Count("g/"), 1U);
  EXPECT_EQ(Count("j/"), 1U);
  EXPECT_EQ(Count("u/"), 0U);
  EXPECT_EQ(meta_.Get(MetaTable::kLedger, "t/all/").value(), "{}");
  EXPECT_EQ(meta_.Get(MetaTable::kLedger, "n").value(), "2");
  EXPECT_TRUE(writer.has_notes());
  ASSERT_TRUE(writer.Write({.counting = RecordWriter::Counting::kRollups}));
  EXPECT_EQ(Count("j/"), 0U);
  EXPECT_EQ(Count("u/"), 6U) << "three steps of time, of everybody and of the tenant";
  EXPECT_FALSE(writer.has_notes());
}

TEST_F(RecordWriterTest, ARecordThatIsNotKeptIsCounted) {
  RecordWriter writer(Options(meta_));
  RecordWriter::Row row = Row(1);
  row.record.clear();
  ASSERT_TRUE(writer.Write({.rows = {row}, .counting = RecordWriter::Counting::kRollups}));
  EXPECT_EQ(Count("r/"), 0U);
  EXPECT_EQ(Count("g/"), 0U);
  EXPECT_EQ(Count("u/"), 6U);
  EXPECT_EQ(meta_.Get(MetaTable::kLedger, "n").value(), "0");
}

TEST_F(RecordWriterTest, SumsOfARefusedStepComeWithTheNext) {
  RecordWriter writer(Options(meta_));
  meta_.refuses = true;
  EXPECT_FALSE(writer.Write({.rows = {Row(1)}, .sums = {{"all/", "1"}, {"model/m", "1"}}}));
  meta_.refuses = false;
  ASSERT_TRUE(writer.Write({.rows = {Row(2)}, .sums = {{"all/", "2"}}}));
  EXPECT_EQ(Count("r/"), 1U);
  EXPECT_EQ(meta_.Get(MetaTable::kLedger, "t/all/").value(), "2");
  EXPECT_EQ(meta_.Get(MetaTable::kLedger, "t/model/m").value(), "1");
  EXPECT_EQ(meta_.Get(MetaTable::kLedger, "n").value(), "1");
}

TEST_F(RecordWriterTest, TheNewestStayAndALaterProcessGoesOn) {
  {
    RecordWriter writer(Options(meta_));
    for (int i = 0; i < 25; ++i) ASSERT_TRUE(writer.Write({.rows = {Row(i)}}));
  }
  RecordWriter writer(Options(meta_));
  EXPECT_TRUE(writer.has_notes()) << "nobody has summed them";
  writer.Retire(kNowUs);
  EXPECT_EQ(Count("r/"), 10U);
  EXPECT_EQ(Count("g/"), 4U);
  EXPECT_TRUE(meta_.Get(MetaTable::kLedger, RecordKey("id1024")).value());
  EXPECT_FALSE(meta_.Get(MetaTable::kLedger, RecordKey("id1014")).value());
  const auto has_segments = [&](const std::string& id) {
    const auto record = meta_.Get(MetaTable::kLedger, RecordKey(id)).value();
    return writer.SegmentsOf(id, record.value()).value().has_value();
  };
  EXPECT_TRUE(has_segments("id1024"));
  EXPECT_TRUE(has_segments("id1021"));
  EXPECT_FALSE(has_segments("id1020"));
}

TEST_F(RecordWriterTest, OldOnesGo) {
  RecordWriter writer(Options(meta_));
  ASSERT_TRUE(writer.Write({.rows = {Row(1, kNowUs - 31 * kDayUs), Row(2)}}));
  writer.Retire(kNowUs);
  EXPECT_EQ(Count("r/"), 1U);
  EXPECT_TRUE(meta_.Get(MetaTable::kLedger, RecordKey("id1002")).value());
}

// It knows where its own oldest records end. One whose request took long goes with those that came
// when it did, and the store's number of records stays right.
TEST_F(RecordWriterTest, TheOldestOfItsOwnGoWithoutBeingRead) {
  RecordWriter::Options options = Options(meta_);
  options.records_max = 256;
  RecordWriter writer(options);
  writer.Retire(kNowUs);  // ages are not checked again for a minute
  for (int i = 0; i < 1'000; ++i) {
    std::vector<RecordWriter::Row> rows{Row(i)};
    if (i == 600) rows.push_back({.key = RecordKey("id1500-took long"), .record = Row(0).record});
    ASSERT_TRUE(writer.Write({.rows = std::move(rows)}));
    meta_.num_scans = 0;
    writer.Retire(kNowUs);
    EXPECT_EQ(meta_.num_scans, 0) << i;
    EXPECT_EQ(meta_.Get(MetaTable::kLedger, "n").value(), std::to_string(Count("r/"))) << i;
    EXPECT_LE(Count("r/"), 256U + 256 / 64 + 1);
  }
  EXPECT_GE(Count("r/"), 256U);
  EXPECT_TRUE(meta_.Get(MetaTable::kLedger, RecordKey("id1999")).value());
  EXPECT_FALSE(meta_.Get(MetaTable::kLedger, RecordKey("id1500-took long")).value());
}

TEST_F(RecordWriterTest, WhatTheStoreDoesNotDeleteNowGoesWithTheNextStep) {
  RecordWriter writer(Options(meta_));
  writer.Retire(kNowUs);
  for (int i = 0; i < 25; ++i) ASSERT_TRUE(writer.Write({.rows = {Row(i)}}));
  meta_.refuses = true;
  writer.Retire(kNowUs);
  meta_.refuses = false;
  EXPECT_EQ(Count("r/"), 25U);
  writer.Retire(kNowUs);
  EXPECT_EQ(Count("r/"), 10U);
  EXPECT_EQ(meta_.Get(MetaTable::kLedger, "n").value(), "10");
}

}  // namespace
}  // namespace kvgate::ledger
