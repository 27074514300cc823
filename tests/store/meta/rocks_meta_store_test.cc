#include "store/meta/rocks_meta_store.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/store/store_fixture.h"
#include "tests/wait_until.h"

namespace kvgate::store::meta {
namespace {

TEST(RocksMetaStore, WhatWasPutIsThereAfterReopening) {
  const TempFolder directory;
  {
    auto meta = OpenRocksMetaStore({.directory = directory.path() / "meta"}).value();
    ASSERT_TRUE(meta->Put(MetaTable::kTurns, "a", "1"));
    ASSERT_TRUE(meta->Put(MetaTable::kPins, "a", "2"));
    ASSERT_TRUE(meta->Put(MetaTable::kTurns, "b", "3"));
    ASSERT_TRUE(meta->Delete(MetaTable::kTurns, "b"));
  }
  auto meta = OpenRocksMetaStore({.directory = directory.path() / "meta", .sync = true}).value();
  EXPECT_EQ(meta->Get(MetaTable::kTurns, "a").value(), "1");
  EXPECT_EQ(meta->Get(MetaTable::kPins, "a").value(), "2");
  EXPECT_EQ(meta->Get(MetaTable::kTurns, "b").value(), std::nullopt);
  EXPECT_EQ(meta->Get(MetaTable::kLedger, "a").value(), std::nullopt);
  EXPECT_TRUE(meta->Put(MetaTable::kLedger, "x", "y"));
}

TEST(RocksMetaStore, AfterADiskThatFailedItWritesAgainAndLosesNothing) {
  const TempFolder directory;
  const MetaStoreOptions options{.directory = directory.path() / "meta"};
  auto meta = OpenRocksMetaStore(options).value();
  const std::string value(1000, 'v');
  int num_kept = 0;
  {
    const FailingDisk failing(64 * 1024);
    while (num_kept < 1000 && meta->Put(MetaTable::kTurns, std::to_string(num_kept), value)) {
      ++num_kept;
    }
    EXPECT_LT(num_kept, 100);
    EXPECT_EQ(meta->Get(MetaTable::kTurns, "0").value(), value) << "reading goes on";
  }
  EXPECT_TRUE(test::WaitUntil(
      [&] { return meta->Put(MetaTable::kTurns, "after", value).has_value(); }, "it writes again"));
  meta.reset();
  meta = OpenRocksMetaStore(options).value();
  for (int i = 0; i < num_kept; ++i) {
    EXPECT_EQ(meta->Get(MetaTable::kTurns, std::to_string(i)).value(), value) << i;
  }
  EXPECT_EQ(meta->Get(MetaTable::kTurns, "after").value(), value);
}

TEST(RocksMetaStore, AScanVisitsThePrefixInOrderAndStopsWhenAsked) {
  const TempFolder directory;
  auto meta = OpenRocksMetaStore({.directory = directory.path() / "meta"}).value();
  for (const char* key : {"b2", "a1", "b1", "c", "b3"}) {
    ASSERT_TRUE(meta->Put(MetaTable::kLedger, key, key));
  }
  std::string seen;
  ASSERT_TRUE(meta->Scan(MetaTable::kLedger, "b", [&](std::string_view key, std::string_view) {
    seen += key;
    return key != "b2";
  }));
  EXPECT_EQ(seen, "b1b2");
}

TEST(RocksMetaStore, AScanFromAKeyVisitsWhatFollowsItUnderThePrefix) {
  const TempFolder directory;
  auto meta = OpenRocksMetaStore({.directory = directory.path() / "meta"}).value();
  for (const char* key : {"b2", "a1", "b1", "c", "b4"}) {
    ASSERT_TRUE(meta->Put(MetaTable::kLedger, key, key));
  }
  const auto scan = [&](std::string_view from) {
    std::string seen;
    EXPECT_TRUE(meta->ScanFrom(MetaTable::kLedger, {.prefix = "b", .from = from},
                               [&](std::string_view key, std::string_view) {
                                 seen += key;
                                 return true;
                               }));
    return seen;
  };
  EXPECT_EQ(scan("b2"), "b2b4");
  EXPECT_EQ(scan("b3"), "b4");  // a key that is not there
  EXPECT_EQ(scan("a"), "b1b2b4");
  EXPECT_EQ(scan("c"), "");
}

TEST(RocksMetaStore, AScanBackVisitsThePrefixFromItsEndOrFromAKey) {
  const TempFolder directory;
  auto meta = OpenRocksMetaStore({.directory = directory.path() / "meta"}).value();
  for (const char* key : {"b2", "a1", "b1", "c", "b3"}) {
    ASSERT_TRUE(meta->Put(MetaTable::kLedger, key, key));
  }
  const auto scan = [&](std::string_view prefix, std::string before) {
    std::string seen;
    EXPECT_TRUE(meta->ScanBack(MetaTable::kLedger, {.prefix = prefix, .before = std::move(before)},
                               [&](std::string_view key, std::string_view) {
                                 seen += key;
                                 return key != "a1";
                               }));
    return seen;
  };
  EXPECT_EQ(scan("b", ""), "b3b2b1");
  EXPECT_EQ(scan("b", "b3"), "b2b1");
  EXPECT_EQ(scan("b", "b25"), "b2b1");
  EXPECT_EQ(scan("b", "b1"), "");
  EXPECT_EQ(scan("c", ""), "c");
  EXPECT_EQ(scan("", ""), "cb3b2b1a1");
  EXPECT_EQ(scan("d", ""), "");
}

TEST(RocksMetaStore, SeveralWritesAreOneStep) {
  const TempFolder directory;
  const MetaStoreOptions options{.directory = directory.path() / "meta"};
  {
    auto meta = OpenRocksMetaStore(options).value();
    ASSERT_TRUE(meta->Put(MetaTable::kLedger, "old", "1"));
    const std::vector<MetaWrite> writes = {{.key = "a", .value = "2"},
                                           {.key = "old", .value = std::nullopt},
                                           {.key = "b", .value = ""}};
    ASSERT_TRUE(meta->PutAll(MetaTable::kLedger, writes));
  }
  auto meta = OpenRocksMetaStore(options).value();
  EXPECT_EQ(meta->Get(MetaTable::kLedger, "a").value(), "2");
  EXPECT_EQ(meta->Get(MetaTable::kLedger, "b").value(), "");
  EXPECT_EQ(meta->Get(MetaTable::kLedger, "old").value(), std::nullopt);
}

TEST(RocksMetaStore, ARangeOfKeysIsDeletedInAStepAndStaysSoAfterReopening) {
  const TempFolder directory;
  const MetaStoreOptions options{.directory = directory.path() / "meta"};
  const auto keys = [](const MetaStore& meta) {
    std::string found;
    (void)meta.Scan(MetaTable::kLedger, "r/", [&](std::string_view key, std::string_view) {
      found += key.substr(2);
      return true;
    });
    return found;
  };
  {
    auto meta = OpenRocksMetaStore(options).value();
    for (const char* key : {"r/a", "r/b", "r/c", "r/d", "q", "s"}) {
      ASSERT_TRUE(meta->Put(MetaTable::kLedger, key, key));
    }
    ASSERT_TRUE(
        meta->PutAll(MetaTable::kLedger,
                     std::vector<MetaWrite>{{.key = "r/", .value = std::nullopt, .until = "r/c"},
                                            {.key = "r/b", .value = "anew"}}));
    EXPECT_EQ(keys(*meta), "bcd");
  }
  // Once from the log, once from tables.
  for (int round = 0; round < 2; ++round) {
    auto meta = OpenRocksMetaStore(options).value();
    EXPECT_EQ(keys(*meta), "bcd");
    EXPECT_EQ(meta->Get(MetaTable::kLedger, "r/a").value(), std::nullopt);
    EXPECT_EQ(meta->Get(MetaTable::kLedger, "q").value(), "q");
    EXPECT_EQ(meta->Get(MetaTable::kLedger, "s").value(), "s");
    EXPECT_EQ(meta->Stats().num_lost, 0U);
    EXPECT_EQ(meta->Stats().damaged_log_bytes, 0U);
    ASSERT_TRUE(meta->Compact(MetaTable::kLedger));
  }
}

TEST(RocksMetaStore, ADamagedDatabaseIsLeftAloneAndNamed) {
  const TempFolder directory;
  const auto path = directory.path() / "meta";
  { ASSERT_TRUE(OpenRocksMetaStore({.directory = path}).value()->Put(MetaTable::kPins, "a", "b")); }
  for (const auto& file : FilesWith(path, "MANIFEST")) std::filesystem::resize_file(file, 20);
  const auto opened = OpenRocksMetaStore({.directory = path});
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kDataLoss) << opened.error().ToString();
  EXPECT_NE(opened.error().detail.find("kvgate cache repair"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(path));
}

std::filesystem::path LogOf(const std::filesystem::path& directory) {
  for (const auto& log : FilesWith(directory, ".log")) {
    if (std::filesystem::file_size(log) > 0) return log;
  }
  return {};
}

TEST(RocksMetaStore, WhateverHappensToTheLogEveryAcknowledgedRowIsThereOrCounted) {
  const TempFolder directory;
  const auto whole = directory.path() / "whole";
  constexpr int kRows = 60;
  std::filesystem::create_directory(whole);
  {
    auto meta = OpenRocksMetaStore({.directory = whole / "meta"}).value();
    for (int i = 0; i < kRows; ++i) {
      ASSERT_TRUE(meta->Put(MetaTable::kTurns, std::to_string(i), std::string(500, 'v')));
    }
  }
  const uint64_t bytes = std::filesystem::file_size(LogOf(whole / "meta"));
  for (uint64_t at = 0; at < bytes; at += 1201) {
    for (const bool cut : {false, true}) {
      const auto copy = directory.path() / "copy";
      std::filesystem::remove_all(copy);
      std::filesystem::copy(whole, copy, std::filesystem::copy_options::recursive);
      const auto log = LogOf(copy / "meta");
      cut ? std::filesystem::resize_file(log, at) : FlipByte(log, at);
      auto meta = OpenRocksMetaStore({.directory = copy / "meta"}).value();
      uint64_t num_gone = 0;
      for (int i = 0; i < kRows; ++i) {
        const auto value = meta->Get(MetaTable::kTurns, std::to_string(i)).value();
        num_gone += value ? 0 : 1;
        EXPECT_EQ(value.value_or(std::string(500, 'v')), std::string(500, 'v'));
      }
      const MetaStoreStats stats = meta->Stats();
      EXPECT_TRUE(num_gone == 0 || stats.num_lost + stats.damaged_log_bytes > 0) << at;
      // A gap at the very front of the log is visible only in its byte count.
      const bool at_front = !meta->Get(MetaTable::kTurns, "0").value() && !cut;
      EXPECT_TRUE(at_front || stats.num_lost == num_gone) << at << (cut ? " cut" : "");
      EXPECT_EQ(num_gone > 0 && !cut, !FilesWith(copy, "meta.damaged-").empty()) << at;
    }
  }
}

TEST(RocksMetaStore, ADirectoryThatWasRemovedKeepsNothingMore) {
  const TempFolder directory;
  const auto path = directory.path() / "meta";
  auto meta = OpenRocksMetaStore({.directory = path}).value();
  ASSERT_TRUE(meta->Put(MetaTable::kTurns, "a", "b"));
  std::filesystem::rename(path, directory.path() / "elsewhere");
  const auto gone = meta->Put(MetaTable::kTurns, "c", "d");
  ASSERT_FALSE(gone.has_value());
  EXPECT_EQ(gone.error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(meta->Stats().error.empty());
  std::filesystem::create_directory(path);
  EXPECT_FALSE(meta->Put(MetaTable::kTurns, "c", "d").has_value()) << "another directory";
}

TEST(RocksMetaStore, ReadOnlyRefusesToWriteAndToCreate) {
  const TempFolder directory;
  const auto path = directory.path() / "meta";
  EXPECT_EQ(OpenRocksMetaStore({.directory = path, .read_only = true}).error().code,
            ErrorCode::kNotFound);
  { ASSERT_TRUE(OpenRocksMetaStore({.directory = path}).value()->Put(MetaTable::kPins, "a", "b")); }
  auto meta = OpenRocksMetaStore({.directory = path, .read_only = true}).value();
  EXPECT_EQ(meta->Get(MetaTable::kPins, "a").value(), "b");
  EXPECT_EQ(meta->Put(MetaTable::kPins, "a", "c").error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace kvgate::store::meta
