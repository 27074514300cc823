#include "gateway/ledger/segment/segment_rows.h"

#include <gtest/gtest.h>

#include <string>

#include "gateway/ledger/segment/segment_format.h"
#include "tests/store/memory_meta_store.h"

namespace kvgate::ledger::segment {
namespace {

using store::MemoryMetaStore;
using store::meta::MetaTable;

void Put(MemoryMetaStore& meta, SegmentRows& rows, int number) {
  std::vector<store::meta::MetaWrite> writes;
  rows.Begin();
  rows.Append("id" + std::to_string(10'000 + number),
              EncodeSegments(std::vector<RecordSegment>{{.source = "user", .uncached = number}}),
              writes);
  rows.AppendCount(writes);
  ASSERT_TRUE(meta.PutAll(MetaTable::kLedger, writes));
  rows.Accept();
  const auto old = rows.TakeOld();
  ASSERT_TRUE(old);
  if (old->empty()) return;
  ASSERT_TRUE(meta.PutAll(MetaTable::kLedger, *old));
  rows.AcceptOld();
}

TEST(SegmentRowsTest, OnlyTheNewestAreKeptAcrossProcesses) {
  MemoryMetaStore meta;
  for (int process = 0; process < 3; ++process) {
    SegmentRows rows(meta, 10);
    rows.Restore();
    for (int i = 0; i < 15; ++i) Put(meta, rows, process * 15 + i);
  }
  EXPECT_EQ(meta.CountRows(MetaTable::kLedger, "s/"), 10U);
  const SegmentRows rows(meta, 10);
  EXPECT_EQ((*rows.Read("id10044").value())[0].uncached, 44);
  EXPECT_FALSE(rows.Read("id10034").value());
}

TEST(SegmentRowsTest, WhatTheStoreRefusedIsNotCounted) {
  MemoryMetaStore meta;
  SegmentRows rows(meta, 2);
  std::vector<store::meta::MetaWrite> writes;
  for (int i = 0; i < 9; ++i) {
    rows.Begin();
    rows.Append("lost", "x", writes);
  }
  Put(meta, rows, 1);
  EXPECT_TRUE(rows.TakeOld()->empty());
  EXPECT_TRUE(rows.Read("id10001").value());
}

TEST(SegmentRowsTest, NoneAreKeptIfNoneAreAskedFor) {
  MemoryMetaStore meta;
  SegmentRows rows(meta, 0);
  std::vector<store::meta::MetaWrite> writes;
  rows.Append("id1", "x", writes);
  rows.AppendCount(writes);
  EXPECT_TRUE(writes.empty());
  EXPECT_FALSE(rows.keeps());
}

}  // namespace
}  // namespace kvgate::ledger::segment
