#include "gateway/ledger/segment/segment_rows.h"

#include <gtest/gtest.h>

#include <string>

#include "gateway/ledger/segment/segment_format.h"
#include "tests/store/memory_meta_store.h"

namespace kvgate::ledger::segment {
namespace {

using store::MemoryMetaStore;
using store::meta::MetaTable;

std::string IdOf(int number) { return "id" + std::to_string(10'000 + number); }

std::string SegmentsOf(int number) {
  return EncodeSegments(std::vector<RecordSegment>{{.source = "user", .uncached = number}});
}

// Writes one step with the segments of `count` records; returns the number of the first.
uint64_t Put(MemoryMetaStore& meta, SegmentRows& rows, int from, int count = 1) {
  std::vector<store::meta::MetaWrite> writes;
  rows.Begin();
  uint64_t first = 0;
  for (int i = from; i < from + count; ++i) {
    const uint64_t number = rows.Add(IdOf(i), SegmentsOf(i));
    if (i == from) first = number;
  }
  rows.AppendTo(writes);
  EXPECT_TRUE(meta.PutAll(MetaTable::kLedger, writes));
  rows.Accept();
  return first;
}

// Returns what is kept of a record, or -1.
int64_t Read(const SegmentRows& rows, int number, uint64_t place) {
  const std::string id = IdOf(number);
  const auto found = rows.Read({.id = id, .number = place}).value();
  return found ? found->at(0).uncached : -1;
}

TEST(SegmentRowsTest, OnlyTheNewestAreKeptAcrossProcesses) {
  MemoryMetaStore meta;
  for (int process = 0; process < 3; ++process) {
    SegmentRows rows(meta, 10);
    ASSERT_TRUE(rows.Restore());
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(Put(meta, rows, process * 15 + i * 3, 3), process * 15 + i * 3 + 1);
    }
  }
  EXPECT_EQ(meta.CountRows(MetaTable::kLedger, "g/"), 4U) << "rows of three";
  const SegmentRows rows(meta, 10);
  for (int i = 0; i < 45; ++i) EXPECT_EQ(Read(rows, i, i + 1), i < 33 ? -1 : i) << i;
}

TEST(SegmentRowsTest, AStepTakesMoreRowsWhenItIsLarge) {
  MemoryMetaStore meta;
  SegmentRows rows(meta, 10'000);
  EXPECT_EQ(Put(meta, rows, 0, 5'000), 1U);
  const size_t num_rows = meta.CountRows(MetaTable::kLedger, "g/");
  EXPECT_GT(num_rows, 1U);
  EXPECT_LT(num_rows, 10U);
  EXPECT_EQ(Put(meta, rows, 5'000), 5'001U);
  for (int i = 0; i <= 5'000; ++i) ASSERT_EQ(Read(rows, i, i + 1), i);
  EXPECT_EQ(Read(rows, 5'001, 5'002), -1);
}

TEST(SegmentRowsTest, WhatTheStoreRefusedIsForgotten) {
  MemoryMetaStore meta;
  SegmentRows rows(meta, 2);
  std::vector<store::meta::MetaWrite> writes;
  for (int i = 0; i < 9; ++i) {
    rows.Begin();
    EXPECT_EQ(rows.Add("lost", SegmentsOf(9)), 1U);
    rows.AppendTo(writes);
  }
  EXPECT_EQ(Put(meta, rows, 1), 1U);
  EXPECT_EQ(Read(rows, 1, 1), 1);
}

// A store that was damaged may have lost the last rows, whose numbers are given again.
TEST(SegmentRowsTest, AnotherRecordsSegmentsAreNeverShown) {
  MemoryMetaStore meta;
  SegmentRows rows(meta, 10);
  EXPECT_EQ(Put(meta, rows, 0, 3), 1U);
  EXPECT_EQ(Read(rows, 1, 2), 1);
  EXPECT_EQ(Read(rows, 2, 2), -1);
  EXPECT_EQ(Read(rows, 2, 9), -1);
}

TEST(SegmentRowsTest, DamagedRowsHoldNothing) {
  MemoryMetaStore meta;
  SegmentRows rows(meta, 10);
  Put(meta, rows, 0, 3);
  const std::string key = "g/0000000000000001";
  const std::string row = **meta.Get(MetaTable::kLedger, key);
  for (size_t size = 0; size < row.size(); ++size) {
    ASSERT_TRUE(meta.Put(MetaTable::kLedger, key, row.substr(0, size)));
    EXPECT_EQ(Read(rows, 2, 3), -1) << size;
  }
  ASSERT_TRUE(meta.Put(MetaTable::kLedger, "g/x", row));
  SegmentRows again(meta, 10);
  ASSERT_TRUE(again.Restore());
  EXPECT_EQ(Put(meta, again, 3), 4U);
}

TEST(SegmentRowsTest, RowsOfAnOlderVersionAreReadUntilThereAreEnoughNewOnes) {
  MemoryMetaStore meta;
  for (int i = 0; i < 1'500; ++i) {
    ASSERT_TRUE(meta.Put(MetaTable::kLedger, "s/" + IdOf(i), SegmentsOf(i)));
  }
  ASSERT_TRUE(meta.Put(MetaTable::kLedger, "ns", "1500"));
  SegmentRows rows(meta, 10);
  ASSERT_TRUE(rows.Restore());
  EXPECT_EQ(Put(meta, rows, 1'500, 9), 1U);
  EXPECT_EQ(Read(rows, 7, 0), 7);
  EXPECT_EQ(meta.CountRows(MetaTable::kLedger, "s/"), 1'500U);
  Put(meta, rows, 1'509);
  EXPECT_EQ(meta.CountRows(MetaTable::kLedger, "s/"), 500U);
  EXPECT_EQ(Read(rows, 1'400, 0), 1'400);
  Put(meta, rows, 1'510);
  EXPECT_EQ(meta.CountRows(MetaTable::kLedger, "s/"), 0U);
  EXPECT_FALSE(*meta.Get(MetaTable::kLedger, "ns"));
  EXPECT_EQ(Read(rows, 1'400, 0), -1);
}

TEST(SegmentRowsTest, NoneAreKeptIfNoneAreAskedFor) {
  const MemoryMetaStore meta;
  EXPECT_FALSE(SegmentRows(meta, 0).keeps());
}

}  // namespace
}  // namespace kvgate::ledger::segment
